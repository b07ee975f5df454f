#include "runtime/cuda/library/conv_shapes.h"

#include <algorithm>
#include <limits>

#include "core/ops/conv2d.h"

namespace unity::cuda {
namespace {

// Strides of a dense block.
std::array<std::int64_t, 4> packed(const Dims& extent, bool channels_last) {
  if (channels_last) return {extent[1] * extent[2] * extent[3], 1, extent[3] * extent[1], extent[1]};
  return {extent[1] * extent[2] * extent[3], extent[2] * extent[3], extent[3], 1};
}
std::array<std::int64_t, 4> sizes(const Dims& extent) { return {extent[0], extent[1], extent[2], extent[3]}; }

Result<void> expect_small(std::initializer_list<const Operand*> operands) {
  for (const Operand* o : operands) {
    if (o->elements() == 0) return fail("an operand has no elements");
    if (o->elements() > std::numeric_limits<std::int32_t>::max())
      return fail("an operand of {} elements is over 32 bits", o->elements());
  }
  return {};
}

}  // namespace

Result<SpatialAxis> spatial_axis(const Window& w, const Operand& x, const Operand& y, std::size_t d) {
  // Positions in the logical x: windows read [begin, end), the block holds [x.offset, x.offset + x.extent).
  std::int64_t begin = y.offset[d] * w.stride - w.pad_before;
  std::int64_t end = (y.offset[d] + y.extent[d] - 1) * w.stride - w.pad_before + (w.kernel - 1) * w.dilation + 1;
  std::int64_t before = x.offset[d] - begin, after = end - (x.offset[d] + x.extent[d]);
  SpatialAxis a;
  a.first = std::max<std::int64_t>(-before, 0), a.pre = std::max<std::int64_t>(before, 0);
  // Pads [after, after + stride) give as many windows, as a stride that does not divide is rounded down.
  std::int64_t most = after + w.stride - 1, cut = 0;
  if (a.pre >= after && a.pre <= most)
    a.post = a.pre;
  else if (most >= 0)
    a.post = std::max<std::int64_t>(after, 0);
  else
    cut = -after;
  a.length = x.extent[d] - a.first - cut;
  if (a.length < 1) return fail("windows read nothing of dimension {}", d);
  return a;
}

Result<ConvShape> conv_shape(const Attributes& attributes, const Operand& x, const Operand& w, const Operand& y,
                             bool channels_last) {
  UNITY_TRY(expect_small({&x, &w, &y}));
  Windows windows = UNITY_TRY(conv2d_windows("conv2d", attributes, x.global, w.global));
  ConvShape s;
  s.x = sizes(x.extent), s.w = sizes(w.extent), s.y = sizes(y.extent);
  s.channels_last = channels_last;
  s.x_strides = packed(x.extent, channels_last), s.w_strides = packed(w.extent, channels_last);
  s.y_strides = packed(y.extent, channels_last);
  for (std::size_t i : {0, 1}) {
    const Window& window = windows.window[i];
    SpatialAxis axis = UNITY_TRY(spatial_axis(window, x, y, i + 2));
    s.stride[i] = window.stride, s.dilation[i] = window.dilation;
    s.pre[i] = axis.pre, s.post[i] = axis.post;
    s.x[i + 2] = axis.length;
    s.x_first += axis.first * s.x_strides[i + 2];
    s.crops |= axis.length != x.extent[i + 2];
  }
  // Of this block: all groups, or a share.
  if (x.extent[1] % w.extent[1] != 0 || w.extent[0] % s.groups() != 0 || w.extent[0] != y.extent[1])
    return fail("{} channels and {} in {} groups", x.extent[1], w.extent[0], s.groups());
  return s;
}

ConvShape with_pads_in_x(const ConvShape& shape) {
  ConvShape s = shape;
  for (std::size_t i : {0, 1}) s.x[i + 2] += s.pre[i] + s.post[i];
  s.x_strides = packed({s.x.begin(), s.x.end()}, s.channels_last);
  s.pre = s.post = {0, 0};
  s.x_first = 0, s.crops = false;
  return s;
}

std::string to_string(const ConvShape& s) {
  return fmt::format("x {} strides {} from {} w {} y {} stride {} dilation {} pads {} and {}{}", fmt::join(s.x, ","),
                     fmt::join(s.x_strides, ","), s.x_first, fmt::join(s.w, ","), fmt::join(s.y, ","),
                     fmt::join(s.stride, ","), fmt::join(s.dilation, ","), fmt::join(s.pre, ","),
                     fmt::join(s.post, ","), s.channels_last ? " channels last" : "");
}

ConvOperands conv_operands(std::string_view op) {
  if (op == "conv2d") return {0, 1, 2};
  if (op == "conv2d_input_gradient") return {3, 0, 1};
  if (op == "conv2d_input_gradient_accumulate") return {4, 0, 1};
  if (op == "conv2d_weight_gradient_accumulate") return {0, 4, 1};
  UNITY_CHECK(op == "conv2d_weight_gradient", "{} is no convolution", op);
  return {0, 3, 1};
}

Result<PoolShape> pool_shape(const Windows& windows, const Operand& x, const Operand& y) {
  UNITY_TRY(expect_small({&x, &y}));
  PoolShape s;
  s.n = x.extent[0], s.c = x.extent[1];
  s.h = x.extent[2], s.w = x.extent[3], s.oh = y.extent[2], s.ow = y.extent[3];
  for (std::size_t i : {0, 1}) {
    const Window& window = windows.window[i];
    SpatialAxis axis = UNITY_TRY(spatial_axis(window, x, y, i + 2));
    if (axis.length != x.extent[i + 2]) return fail("windows read only {} of {}", axis.length, x.extent[i + 2]);
    if (axis.pre != axis.post) return fail("pads {} and {} differ", axis.pre, axis.post);
    if (axis.pre >= window.kernel) return fail("pad {} leaves windows of {} empty", axis.pre, window.kernel);
    if (window.dilation != 1) return fail("dilation {}", window.dilation);
    s.kernel[i] = window.kernel, s.stride[i] = window.stride, s.pad[i] = axis.pre;
  }
  return s;
}

std::string to_string(const PoolShape& s) {
  return fmt::format("{}x{} of {}x{} to {}x{} kernel {} stride {} pad {}", s.n, s.c, s.h, s.w, s.oh, s.ow,
                     fmt::join(s.kernel, "x"), fmt::join(s.stride, ","), fmt::join(s.pad, ","));
}

}  // namespace unity::cuda
