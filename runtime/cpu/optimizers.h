// Optimizer steps on flat arrays of one shard, f32 and f64. They are element-wise, so any sharding gives the same
// weights.
#pragma once

#include <cstdint>

#include "core/ops/shape.h"

namespace unity::cpu {

// Stochastic gradient descent with heavy-ball momentum: v = momentum v + g; w -= learning_rate v. Without momentum
// `velocity` may be null, and v = g.
void sgd_step(void* weight, const void* gradient, void* velocity, std::int64_t elements, double learning_rate,
              double momentum, DType dtype);

// Adam (Kingma and Ba 2015) with bias correction; `step` counts from 1:
// m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; w -= lr (m / (1 - beta1^step)) / (sqrt(v / (1 -
// beta2^step)) + epsilon)
void adam_step(void* weight, const void* gradient, void* mean, void* variance, std::int64_t elements,
               double learning_rate, double beta1, double beta2, double epsilon, std::int64_t step, DType dtype);

}  // namespace unity::cpu
