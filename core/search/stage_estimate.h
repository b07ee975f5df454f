// What stages of a pipeline take, from sums over their operators (intra_costs.h): what the stage DP asks for, and of a
// whole plan the time and a bound. What ranks plans is their simulation.
#pragma once

#include <cstdint>
#include <vector>

#include "core/search/intra_costs.h"
#include "core/search/staged_plan.h"

namespace unity {

// What a device does and holds in a range of operators; picoseconds and bytes, of one micro-batch but for what is done
// once an iteration (`sync`, `update`) or held throughout.
struct StageTotals {
  double time = 0, compute = 0, forward = 0, work = 0, sync = 0, update = 0;
  StageNeeds bytes;

  // Operators begin .. end - 1.
  void add(const IntraCosts::Sums& sums, std::size_t begin, std::size_t end, bool remat);
  void append(const StageTotals& next);  // of the operators behind
  // Once an iteration: what of the sums of gradients is not hidden behind a micro-batch, and the updates.
  double once() const;
  // Gradients of weights, where they come behind what a stage sends: half of what the backward pass computes.
  double unawaited(bool behind) const { return behind ? (compute - forward) / 2 : 0; }
  StageOption option(int micro_batches, bool behind) const;
};

class StageEstimates {
 public:
  // Both have to live as long. Gradients are joined as the options' schedule says, or in such buckets.
  StageEstimates(const StrategyInput& input, const IntraPlans& plans)
      : StageEstimates(input, plans, input.options.schedule.bucket) {}
  StageEstimates(const StrategyInput& input, const IntraPlans& plans, Bytes bucket);

  const IntraCosts& costs() const { return costs_; }

  // In picoseconds, of one micro-batch. `cut`: an operator; the values that cross it are those of
  // `IntraPlans::crossing`.
  //
  // What comes into a stage, or leaves it, holds up the collectives inside, if there are any: they share a stream. Each
  // of the devices among which operators are split takes it whole, over the links that the stage has.
  double border_time(const IntraPlan& plan, std::size_t cut, const Resources& devices, int micro_batches) const;
  // What crosses between operators of different plans is laid out anew, forth and back.
  double anew(std::size_t cut, const Resources& devices, int micro_batches) const;
  // To hand over to a stage that begins at `device`, and the gradient back.
  std::int64_t handover(std::size_t cut, int device, int micro_batches) const;
  // How long what comes into a stage takes its links: all of them, which its devices may share.
  std::int64_t entry_time(std::size_t cut, const Resources& devices, int micro_batches) const;

  // Of an iteration, picoseconds.
  struct Estimate {
    std::int64_t time = 0;    // with all that is sent and summed
    std::int64_t least = 0;   // of what is computed alone: no plan is faster by 1%
    std::int64_t beside = 0;  // what a micro-batch takes in stages that work while others do, being of other branches
  };
  // Of each stage what the DP's equation asks for; that one adds up all stages, this the longest way through them.
  Estimate of(const StagedPlan& plan) const;
  // By stage, bytes of its fullest device, under GPipe and 1F1B; zb-h1 holds more than 1F1B, and so do several
  // micro-batches at once. None where the estimates do not know: of weights in parts, of stages with several parts,
  // of what waits on the host.
  std::vector<double> peaks(const StagedPlan& plan) const;
  double excess(const StagedPlan& plan) const;  // of these over what devices have, the most; 0: not known
  // What comes into a stage, of one micro-batch, and waits on its devices for the backward pass.
  double border_bytes(const IntraPlan& plan, std::size_t cut, int micro_batches) const;

 private:
  // Of all links together into a stage's devices, bytes a second.
  double rate_into(const Resources& devices) const;

  const StrategyInput& in_;
  const IntraPlans& plans_;
  IntraCosts costs_;
  int ways_out_;  // of a node
  std::vector<std::pair<std::int64_t, double>>
      to_;  // by device: latency and bandwidth from the one before it; the last one goes around
};

// The fastest first, as estimated.
void sort_by_time(std::vector<StagedPlan>& plans, const StageEstimates& estimates);

// Of each number of stages so many, the fastest as estimated; fastest first.
void keep_fastest_by_stages(std::vector<StagedPlan>& plans, const StageEstimates& estimates, std::size_t most);

// Leaves out those of several stages that are estimated to take more than `factor` times as long as the fastest of
// these. Returns how many.
int drop_slower(std::vector<StagedPlan>& plans, const StageEstimates& estimates, double factor);

}  // namespace unity
