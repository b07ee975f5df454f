// How cuDNN is told about layer norm and RMS norm (core/ops/layer_norm.h, rms_norm.h). Pure: no CUDA.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/ops/operator.h"

namespace unity::cuda {

// x, y and their gradients are row-major [rows, columns] of `type`; gamma, beta, their gradients and what is known of
// each row are f32.
struct NormShape {
  bool centred = true;    // layer norm; RMS norm knows no mean and no beta
  bool backward = false;  // the gradient
  std::int64_t rows = 0, columns = 0;
  DType type = DType::f32;
};
// Of layer_norm, rms_norm and their gradients. Declines f64 (cuDNN computes in f32), rows of several element types,
// blocks without elements, and sizes that do not fit in 32 bits.
Result<NormShape> norm_shape(std::string_view op, std::span<const Operand> inputs, std::span<const Operand> outputs);
// The same for equal shapes and only for them.
std::string to_string(const NormShape& shape);

// In which element type cuDNN takes each operand of the call: its inputs, then its results.
std::vector<DType> norm_types(const NormShape& shape);

}  // namespace unity::cuda
