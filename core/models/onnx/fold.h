// Evaluating the parts of an ONNX graph that depend on constants alone: exporters compute shapes, indices and masks
// there, and Unity wants them as attributes.
#pragma once

#include <optional>
#include <vector>

#include "core/models/onnx/graph.h"

namespace unity {

// The results of a node whose operands are all constants (null: left out); none when the operator is not one of those
// that are evaluated. InputError, without the file's name, when the operands do not fit.
std::optional<std::vector<OnnxTensorRef>> fold(const OnnxNode& node, const std::vector<OnnxTensorRef>& inputs,
                                               std::int64_t opset);

OnnxTensorRef integer_tensor(Dims dims, Integers values);
OnnxTensorRef filled_tensor(Dims dims, float value);

// numpy's broadcasting of two shapes; InputError when they don't fit.
Dims broadcast_dims(const Dims& a, const Dims& b);
// An axis counted from either end, as one counted from the start. InputError when there is none.
std::size_t normal_axis(std::int64_t axis, std::size_t rank);
// What ONNX's Slice takes of a dimension: the first index and how many, `step` apart.
struct SliceRange {
  std::int64_t start = 0, count = 0, step = 1;
};
SliceRange slice_range(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t size);
// The shape that Reshape asks for: 0 copies a dimension unless `allow_zero`, -1 takes what remains.
Dims reshape_dims(const Dims& from, const Dims& asked, bool allow_zero);

}  // namespace unity
