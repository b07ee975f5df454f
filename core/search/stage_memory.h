// What a device holds of a stage, from sums over its operators, of one micro-batch: what tasks of the backward pass
// read of the forward pass (the operands and results that gradient programs name, where they were made, or as they were
// brought to where they are read), and the gradients that are there at once.
//
//   peak  =  weights, states, gradients  +  (micro-batches held - 1) x what the backward pass reads  +  its turn
//
// and where all are held at once, with the gradients of weights as they come in the first turn (StageNeeds).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/search/intra_stage.h"

namespace unity {

// By operator: which of its operands and results its gradient program reads, of which operands the gradient is what
// comes in (of sums), and the bytes of what steps of it make for further steps.
struct BackwardReads {
  std::vector<bool> inputs, outputs, passes;
  double between = 0;
};
std::vector<BackwardReads> backward_reads(const IntraPlans& plans);

// By operator, bytes of a device. `held`: what it makes, and what is brought to it, that the backward pass reads;
// `kept`: of that what is kept where repeated blocks are computed again; `transient`: gradients of values that are
// there at its turn in the backward pass, and what its gradient program makes; `again`: with what is computed again;
// `outside`: of all micro-batches, what is read of the model's inputs, and its outputs.
struct StageBytes {
  std::vector<double> held, kept, transient, again, outside;
};
StageBytes stage_bytes(const IntraPlans& plans, const IntraPlan& plan, int micro_batches,
                       const std::vector<BackwardReads>& reads);

// Bytes of a stage on a device. `persistent`: weights, states, `gradients`, inputs and outputs; `turn`: the most that a
// micro-batch needs in its backward pass, what it holds still with what is transient; `first_turn`: with the gradients
// of weights, as they come.
struct StageNeeds {
  double persistent = 0, gradients = 0, in_flight = 0, turn = 0, first_turn = 0;
  // The operator behind all so far.
  void add(double held, double gradient, double transient);
  void append(const StageNeeds& next);  // all of them
  // Of a stage that holds so many of all its micro-batches at once.
  double peak(std::int64_t held, std::int64_t micro_batches) const;
};

}  // namespace unity
