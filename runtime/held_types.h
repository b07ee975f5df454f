// In which element type a backend holds each tensor of a Program.
#pragma once

#include <vector>

#include "core/plan/program.h"
#include "runtime/backend.h"

namespace unity {

// By tensor. In bf16: f32 for weights, states of the model and of the optimizer, for the gradients that updates read
// (and all that is moved or added up into them, or with them in one communication), for tensors of at most one
// dimension (losses, statistics, biases), and for those that ask for it (ProgramTensor::full_precision); bf16 for all
// other reals.
std::vector<DType> held_types(const Program& program, Precision precision);

// In bf16, compute tasks read a copy of each weight of two or more dimensions, rounded to bf16. Updates write both;
// behind any other task that writes the weight the copy must be made anew.
struct RoundedWeights {
  std::vector<bool> has_copy;                  // by buffer
  std::vector<std::vector<BufferId>> renewed;  // by task: the weights whose copies are out of date behind it
};
// `types`: held_types().
RoundedWeights rounded_weights(const Program& program, Precision precision, const std::vector<DType>& types);

}  // namespace unity
