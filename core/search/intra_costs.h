// What operators take that are split so (intra_stage.h): sums over them, of one micro-batch, of tasks of the forward
// and of the backward pass on an idle device, and of collectives where layouts differ, forth and back. Once an
// iteration: gradients of replicas are summed, weights updated (tables by rows). What ranks complete plans is their
// simulation.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <tuple>
#include <vector>

#include "core/search/intra_stage.h"
#include "core/search/stage_dp.h"
#include "core/search/stage_memory.h"
#include "core/search/strategy.h"

namespace unity {

// Thread-safe; answers are kept.
class IntraCosts {
 public:
  // Both have to live as long. Gradients are joined as the options' schedule says, or in such buckets.
  IntraCosts(const StrategyInput& input, const IntraPlans& plans)
      : IntraCosts(input, plans, input.options.schedule.bucket) {}
  IntraCosts(const StrategyInput& input, const IntraPlans& plans, Bytes bucket);

  // Sums over the first operators, [k] of those before operator k; picoseconds and bytes of a device. Where repeated
  // blocks are computed again in the backward pass, `again` adds to the time, and `kept` stands in place of
  // `in_flight`. `compute` is the least that tasks of the forward and the backward pass take: of
  // operands it may be that few elements are read; `work` is that of all devices together, if all were as fast as the
  // fastest, `forward` that of the forward pass. Of unequal devices, `time` is that of the slowest, `compute` and
  // `forward` those of the first.
  struct Sums {
    std::vector<double> time, compute, work, forward, sync, update, persistent, gradients, in_flight, again, kept;
    std::vector<double> transient, transient_again;  // by operator: no sums (stage_memory.h)
  };
  // Of a plan that `IntraPlans::of_width` gave before.
  const Sums& sums(const IntraPlan& plan, int micro_batches, const Resources& devices) const;

  // Of an operator that is split so, without what is laid out before it: picoseconds of a micro-batch (`work`: of all
  // devices; `again`: computed again in the backward pass), once an iteration `sync` and `update`, and bytes.
  // `operands` as it reads them; `own`: by operand, whether that is a leaf with storage that no operator before it
  // reads.
  struct OperatorCosts {
    double work = 0, forward = 0, time = 0, compute = 0, sync = 0, update = 0, persistent = 0, gradients = 0, again = 0;
  };
  OperatorCosts operator_costs(std::size_t op, Sharding sharding, std::span<const ParallelShape> operands,
                               const std::vector<bool>& own, int micro_batches, const Resources& devices) const;
  // Whether an operator looks up rows of a trainable table, which no other reads.
  bool is_lookup(std::size_t op) const { return lookups_[op]; }
  // From the layout in which a value is made to that in which it is read, within a stage; forth and back.
  double move_time(const ParallelShape& from, const ParallelShape& to, int micro_batches,
                   const Resources& devices) const;

  // Picoseconds of collectives that all devices do at once, in groups of devices that lie `stride` apart, each with so
  // many bytes: of the slowest, where rings that meet on a link share it.
  std::int64_t collective(CollectiveKind kind, int group, int stride, const Resources& devices, double bytes) const;

 private:
  std::int64_t slowest_collective(CollectiveKind kind, int group, int stride, const Resources& devices,
                                  Bytes bytes) const;
  Sums sums_of(const IntraPlan& plan, int micro_batches, const Resources& devices) const;
  const StageBytes& bytes(const IntraPlan& plan, int micro_batches) const;
  // By operator: the first one that takes as long, since all that is asked of it is the same.
  const std::vector<std::size_t>& alike(const IntraPlan& plan) const;

  const StrategyInput& in_;
  const IntraPlans& plans_;
  const Bytes bucket_;
  const std::vector<BackwardReads> reads_;
  const std::vector<bool> lookups_;  // by operator
  const int node_;                   // devices of one, where all are alike; else 0
  mutable std::mutex mutex_;         // of what follows
  mutable std::map<std::tuple<IntraPlan, int, Resources>, Sums> sums_;
  mutable std::map<std::pair<IntraPlan, int>, StageBytes> bytes_;
  mutable std::map<IntraPlan, std::vector<std::size_t>> alike_;
  mutable std::map<std::tuple<CollectiveKind, int, int, Resources, std::int64_t>, std::int64_t> collectives_;
};

}  // namespace unity
