// Several iterations of a Program in one, so that a step may begin before the one before it has ended, as far as
// dependencies allow. What it computes is what as many runs of the Program do, bit for bit.
//
// Weights, optimizer states and the model's running states are the same buffers in all iterations, and a task waits for
// those of earlier iterations that wrote what it reads or used what it writes. Everything else (activations, gradients,
// inputs, outputs) has a buffer for each iteration, and inputs tensors with names of their own: input_of_iteration().
//
// With weights of one update before (delayed_weights.h), the two versions of a weight change places with every
// iteration: the older one, which the passes of step t have read, becomes the newest, while the passes of step t + 1
// read the other, for which they need not wait. Each device then takes the passes of all iterations in one pipeline
// order without flush (pipeline_order.h). With the newest weights, iterations follow each other on every stream.
#pragma once

#include <string>

#include "core/plan/program.h"
#include "core/plan/schedule.h"

namespace unity {

inline constexpr int kMostIterations = 255;
inline constexpr int kSteadyIterations = 4;  // of which the third is like those after it

std::string input_of_iteration(const std::string& name, int iteration);

// `step` is as lowered with this schedule. Error unless iterations is from 1 to kMostIterations.
Result<Program> repeat(const Program& step, int iterations, const Schedule& schedule);

}  // namespace unity
