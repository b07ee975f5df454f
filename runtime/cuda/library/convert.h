// Elementwise steps around a library's kernel.
#pragma once

#include "core/ops/operator.h"
#include "runtime/cuda/launch.h"

namespace unity::cuda {

// to[i] = from[i], rounded to nearest where `to_type` is the shorter; both f32 or bf16.
void convert(Stream stream, const void* from, DType from_type, void* to, DType to_type, std::int64_t n);
// to[i] = sum[i] + x[i]; sum and to of one type; all f32 or bf16.
void add(Stream stream, const void* sum, const void* x, DType x_type, void* to, DType type, std::int64_t n);
// Copies `planes` of rows times columns, in strides of elements, into the middle of planes of to_rows times to_columns
// that follow one another, behind `above` rows and `left` columns; all else of these becomes zero. f32, f64 or bf16.
struct PaddedPlanes {
  std::int64_t planes = 0, rows = 0, columns = 0, plane_stride = 0, row_stride = 0;
  std::int64_t to_rows = 0, to_columns = 0, above = 0, left = 0;
};
void copy_padded(Stream stream, const void* from, void* to, DType type, const PaddedPlanes& how);
// x[i] = max(0, x[i]), NaN stays; f32, f64 or bf16.
void relu_in_place(Stream stream, void* x, DType type, std::int64_t n);

}  // namespace unity::cuda
