// What the gradients of norms of rows want to know of each row.
#pragma once

#include "core/ops/operator.h"
#include "runtime/cuda/launch.h"

namespace unity::cuda {

// Of rows of `columns` elements of x, f32 or bf16, for each of `rows`: its mean, and 1 / sqrt(variance + epsilon); or
// with no `mean` 1 / sqrt(mean(x^2) + epsilon).
void row_statistics(Stream stream, const void* x, DType type, std::int64_t rows, std::int64_t columns, double epsilon,
                    float* mean, float* inverse);

}  // namespace unity::cuda
