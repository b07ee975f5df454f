// Layer norm, RMS norm and their gradients as graphs of cuDNN of one operation.
#pragma once

#include "runtime/cuda/library/cudnn_graph.h"
#include "runtime/cuda/library/norm_shapes.h"

namespace unity::cuda {

// Ids of the tensors of the graphs: operands and results of the call; of each row its mean (layer norm alone) and
// 1 / sqrt(variance + epsilon), or 1 / sqrt(mean(x^2) + epsilon), f32; and epsilon, an f32 in host memory.
enum class NormId : std::int64_t { x = 1, gamma, beta, y, dy, dx, dgamma, dbeta, mean, inverse, epsilon };

// y from x, gamma, beta (layer norm alone) and epsilon; or dx, dgamma and dbeta (layer norm alone) from x, gamma, dy,
// mean and inverse.
std::vector<Descriptor> norm_graph(const NormShape& shape);

}  // namespace unity::cuda
