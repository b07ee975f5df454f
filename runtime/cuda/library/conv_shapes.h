// How cuDNN is told about a block of a convolution or of pooling (core/ops/conv2d.h, pooling.h). Pure: no CUDA.
//
// A block of y reads a block of x with its halo: the pads of the block are those positions that its windows read
// outside the block of x, which count as zero (or as nothing). Where the block of x has rows before the first that
// windows read, or after the last, the part in between is what cuDNN gets, with the strides of the whole block.
#pragma once

#include <array>
#include <string>

#include "core/ops/spatial.h"

namespace unity::cuda {

// One spatial dimension of a block. `post` is chosen among the values that give as many windows: equal to `pre` where
// that is one of them, as more of cuDNN's engines and all of its pooling take symmetric pads; else the least.
struct SpatialAxis {
  std::int64_t first = 0, length = 0;  // of the part of the block of x that cuDNN gets
  std::int64_t pre = 0, post = 0;      // pads, none negative
};
// For dimension d of x and y. Declines when windows read nothing of the block.
Result<SpatialAxis> spatial_axis(const Window& window, const Operand& x, const Operand& y, std::size_t d);

// Sizes and strides in elements, in the order n, c, h, w (w: co, ci / groups, kh, kw).
struct ConvShape {
  std::array<std::int64_t, 4> x{}, x_strides{}, w{}, w_strides{}, y{}, y_strides{};
  std::array<std::int64_t, 2> stride{}, dilation{}, pre{}, post{};  // vertical, horizontal
  std::int64_t x_first = 0;                                         // element of the block of x where cuDNN's x begins
  bool crops = false;                                               // cuDNN's x is not the whole block
  bool channels_last = false;                                       // in memory: n, h, w, c
  std::int64_t groups() const { return x[1] / w[1]; }
};
// x, w and y are the operand, weight and result of the forward convolution, or their gradients. Declines blocks without
// elements and sizes that do not fit in 32 bits.
Result<ConvShape> conv_shape(const Attributes& attributes, const Operand& x, const Operand& w, const Operand& y,
                             bool channels_last = false);
// The same convolution of an x that holds its pads, as zeros: a contiguous block of its own.
ConvShape with_pads_in_x(const ConvShape& shape);
// The same for equal shapes and only for them.
std::string to_string(const ConvShape& shape);

// Which operands of a call are x, w and y (or their gradients). Operands that give only a shape are left out; a result
// has the number of the inputs.
struct ConvOperands {
  std::size_t x, w, y;
};
// Of conv2d, conv2d_input_gradient and conv2d_weight_gradient, and the forms of these that add to a sum.
ConvOperands conv_operands(std::string_view op);
// Operand i of a call: its inputs, then its results.
inline const Operand& operand(std::span<const Operand> inputs, std::span<const Operand> outputs, std::size_t i) {
  return i < inputs.size() ? inputs[i] : outputs[i - inputs.size()];
}

// All blocks are contiguous, pads symmetric: others are declined.
struct PoolShape {
  std::int64_t n = 0, c = 0, h = 0, w = 0, oh = 0, ow = 0;
  std::array<std::int64_t, 2> kernel{}, stride{}, pad{};
};
Result<PoolShape> pool_shape(const Windows& windows, const Operand& x, const Operand& y);
std::string to_string(const PoolShape& shape);

}  // namespace unity::cuda
