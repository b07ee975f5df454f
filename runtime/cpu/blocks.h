// Moving dense row-major blocks of logical tensors in host memory. Every box is in the coordinates of the logical
// tensor; `box` must lie inside the boxes of both blocks (CHECKed).
#pragma once

#include "core/ops/axes.h"
#include "core/ops/shape.h"

namespace unity::cpu {

// target[box] = source[box]
void copy_block(void* target, const Box& target_box, const void* source, const Box& source_box, const Box& box,
                DType dtype);

// target[box] += source[box]; f32 and f64. Each element is one addition, so the order of calls fixes the result.
void accumulate_block(void* target, const Box& target_box, const void* source, const Box& source_box, const Box& box,
                      DType dtype);

// to[i] = to[i] + from[i], or the larger of the two; f32, f64 and i32.
void combine(void* to, const void* from, std::int64_t elements, DType dtype, Monoid monoid);

// Sets `elements` elements to zero.
void zero_block(void* target, std::int64_t elements, DType dtype);

}  // namespace unity::cpu
