// Optimizer steps on flat arrays of one shard, f32 and f64: one pass each, as plain loops that vectorise. They are
// element-wise, so any sharding gives the same weights. The equations are those of core/plan/optimizer.h.
#pragma once

#include <cstdint>

#include "core/ops/operator.h"

namespace unity::cpu {

struct SgdStep {
  double rate = 0.01, momentum = 0, weight_decay = 0;
  bool nesterov = false;
};

// Stochastic gradient descent with heavy-ball or Nesterov momentum. `velocity` may be null without momentum.
void sgd_step(void* weight, const void* gradient, void* velocity, std::int64_t elements, const SgdStep& how,
              DType dtype);

// table[ids[i]] -= rate times the row of dy that ids[i] belongs to, for the rows that are in the block of the table.
// Every row is one thread's, in the order of ids. InputError when an id is outside the table.
void sgd_rows_step(const Operand& table, const Operand& ids, const Operand& dy, double rate);

struct AdamStep {
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  bool decoupled = false;  // AdamW: the weights decay by themselves, not through the gradient
  std::int64_t step = 1;   // counts from 1
};

// Adam with bias correction: m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
// w -= rate (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + epsilon)
void adam_step(void* weight, const void* gradient, void* mean, void* variance, std::int64_t elements,
               const AdamStep& how, DType dtype);

}  // namespace unity::cpu
