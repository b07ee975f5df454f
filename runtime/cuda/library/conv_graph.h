// Convolutions as graphs of cuDNN.
#pragma once

#include <string_view>

#include "runtime/cuda/library/conv_shapes.h"
#include "runtime/cuda/library/cudnn_graph.h"

namespace unity::cuda {

// Ids of the tensors of the graph.
constexpr std::array<std::int64_t, 3> kConvIds = {1, 2, 3};  // x, w, y, or their gradients

// conv2d (without its activation), conv2d_input_gradient or conv2d_weight_gradient on operands and a result of one
// type; f64 is computed in f64, others in f32. cuDNN fuses no activation in this layout, and has no results of other
// types. `add`: the result is added to what is in its place.
std::vector<Descriptor> conv_graph(std::string_view op, const ConvShape& shape, DType type, bool add = false);

}  // namespace unity::cuda
