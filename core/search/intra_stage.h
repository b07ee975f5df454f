// What a stage of a pipeline can do inside (Alpa's intra-operator pass), and what that costs. Candidates are shardings
// of the whole model by data parallelism and by columns, then rows; every operator of a stage follows one of them, and
// where two operators next to each other follow different ones, data are laid out anew.
//
// Costs are sums over operators, of one micro-batch: tasks of the forward and of the backward pass on an idle device,
// collectives where layouts differ, forth and back. Once an iteration: gradients of replicas are summed, weights
// updated. What ranks complete plans is their simulation.
#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "core/rewrite/relayout.h"
#include "core/search/stage_dp.h"
#include "core/search/strategy.h"
#include "core/search/substitution.h"

namespace unity {

// The batch over `data` devices, then matmuls by columns and rows over `tensor`. What is neither has `tensor` times as
// many devices as it needs: it is computed by some of them, or by all of them (Megatron-LM; Shoeybi et al., 2019), or
// split further along the batch, or along another dimension where it has one (sequence parallelism; Korthikanti et al.,
// 2022).
struct IntraPlan {
  enum class Rest : std::uint8_t { few, copies, batch, sequence };
  int data = 1, tensor = 1;
  Rest rest = Rest::few;
  int width() const { return data * tensor; }
  auto operator<=>(const IntraPlan&) const = default;
};
std::string to_string(const IntraPlan& plan);  // "data 2 x tensor 3 (rest by batch)"

// A model in normal form, without parallelism, and how its operators can be split. Operators are numbered in the order
// of the graph, leaves and parallelization operators apart.
class IntraPlans {
 public:
  IntraPlans(const Pcg& model, const StrategyInput& input);

  const Pcg& model() const { return model_; }
  const std::vector<NodeId>& operators() const { return operators_; }
  // Those that apply on so many devices.
  const std::vector<IntraPlan>& of_width(int width);
  // Finds them for all of these widths; of these, all but sharded() may be asked by several threads at once then.
  void prepare(const std::vector<int>& widths);
  // The model split so; null where that does not apply. Operators are in the same order.
  const Pcg* sharded(const IntraPlan& plan);
  // The shapes of an operator's operands in `sharded`, which has been asked for before. Thread-safe.
  OperandShapes operands(const IntraPlan& plan, std::size_t op) const;
  // The micro-batches must divide what each device has of the batch.
  bool has_micro_batches(const IntraPlan& plan, int micro_batches) const;

  double flops_of(std::size_t begin, std::size_t end) const;  // of the forward pass of operators begin .. end - 1
  bool has_blocks() const { return std::find(in_block_.begin(), in_block_.end(), true) != in_block_.end(); }

  // Sums over the first operators, [k] of those before operator k; picoseconds and bytes of a device. Where repeated
  // blocks are computed again in the backward pass, `again` adds to the time, and `kept` stands in place of
  // `in_flight`. `compute` is the least that tasks of the forward and the backward pass take: of
  // operands it may be that few elements are read; `work` is that of all devices together, `forward`
  // that of the forward pass.
  struct Sums {
    std::vector<double> time, compute, work, forward, sync, update, persistent, in_flight, again, kept;
  };
  const Sums& sums(const IntraPlan& plan, int micro_batches, const Resources& devices);

  // Picoseconds of collectives that all devices do at once, in groups of devices that lie `stride` apart, each with so
  // many bytes: of the slowest, where those that leave a node share its links, and so on inside.
  std::int64_t collective(CollectiveKind kind, int group, int stride, const Resources& devices, double bytes);
  // Bytes of the whole batch that operators before `cut` make and those from it on read.
  const std::vector<double>& crossing() const { return crossing_; }
  // Operators that an operator waits for.
  const std::vector<std::size_t>& producers(std::size_t op) const { return producers_[op]; }

 private:
  struct Sharded {
    std::optional<Pcg> pcg;
    std::vector<NodeId> operators;
  };
  // By data, tensor, whether the rest has copies.
  using Columns = std::tuple<int, int, bool>;
  static Columns columns_of(const IntraPlan& plan) {
    return {plan.data, plan.tensor, plan.rest == IntraPlan::Rest::copies};
  }
  // That the options allow.
  std::vector<IntraPlan> possible(int width) const;
  Result<State> split_columns(const Columns& columns) const;
  Result<Pcg> shard(const IntraPlan& plan) const;
  void shard_all(std::vector<IntraPlan> plans);
  std::int64_t slowest_collective(CollectiveKind kind, int group, int stride, const Resources& devices,
                                  Bytes bytes) const;
  Sums sums_of(const IntraPlan& plan, int micro_batches, const Resources& devices);
  double move_time(const ParallelShape& from, const ParallelShape& to, int micro_batches, const Resources& devices);

  const StrategyInput& in_;
  Pcg model_;
  std::int64_t batch_ = 1;
  std::vector<NodeId> operators_;
  std::map<NodeId, int> batch_axis_;
  std::vector<bool> needs_gradient_;  // by node
  std::vector<double> crossing_;      // by operator
  std::vector<std::vector<std::size_t>> producers_;
  std::vector<bool> in_block_, leaves_block_;  // by operator: it is in a repeated block; what it makes is read outside
  std::map<Columns, Result<State>> columns_then_rows_;
  std::map<IntraPlan, Sharded> models_;
  std::map<int, std::vector<IntraPlan>> of_width_;
  std::mutex mutex_;  // of what follows
  std::map<std::tuple<IntraPlan, int, Resources>, Sums> sums_;
  std::map<std::tuple<CollectiveKind, int, int, Resources, std::int64_t>, std::int64_t> collectives_;
};

}  // namespace unity
