// Convolution of any type and shape, one thread or group to an element of the result: for what cuDNN does not take.
#include "core/ops/conv2d.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/rows.h"
#include "runtime/cuda/through_rows.h"
#include "runtime/cuda/windows.h"

namespace unity::cuda {
namespace {

// Blocks of x [n, ci, h, w], w [co, ci of a group, kh, kw] and y [n, co, oh, ow]. Channels count in the block; those of
// x and y that belong together are found by their position in the logical tensors.
struct Convolution {
  Image image;
  std::int64_t n, x_channels, y_channels;
  std::int64_t co, ci;                              // of w's block
  std::int64_t group_outputs, group_inputs;         // channels of a logical group
  std::int64_t x_first, y_first, o_first, i_first;  // logical channels with which x, y and w (both) begin
  std::int64_t x_plane, y_plane, kernel_area;

  // Of output channel o of y's block: the channel of w's block.
  UNITY_DEVICE std::int64_t filter(std::int64_t o) const { return o + y_first - o_first; }
  // The channel of x's block that input channel 0 of w's block stands for, in the group of output channel o of w's
  // block.
  UNITY_DEVICE std::int64_t first_input(std::int64_t filter) const {
    return (filter + o_first) / group_outputs * group_inputs + i_first - x_first;
  }
};

Convolution convolution_of(const Attributes& a, const Operand& x, const Operand& w, const Operand& y) {
  return {image_of(conv2d_windows("conv2d", a, x.global, w.global).value(), x, y),
          x.extent[0],
          x.extent[1],
          y.extent[1],
          w.extent[0],
          w.extent[1],
          w.global[0] / conv2d_groups(a),
          w.global[1],
          x.offset[1],
          y.offset[1],
          w.offset[0],
          w.offset[1],
          x.extent[2] * x.extent[3],
          y.extent[2] * y.extent[3],
          w.extent[2] * w.extent[3]};
}

}  // namespace

template <class R>
void conv2d_of(const Call& c) {
  if (c.channels_last) return through_rows(c, &conv2d_of<R>);
  using V = typename R::Value;
  auto x = reals<R>(c.inputs[0]), w = reals<R>(c.inputs[1]), y = reals<R>(c.outputs[0]);
  Convolution g = convolution_of(c.attributes, c.inputs[0], c.inputs[1], c.outputs[0]);
  bool relu = conv2d_relu(c.attributes);
  for_each(
      c.stream, c.outputs[0].elements(), UNITY_LAMBDA(std::int64_t to) {
        const WindowLoop &rows = g.image.rows, &columns = g.image.columns;
        Pixel at = pixel_at(to, rows.windows, columns.windows);
        std::int64_t filter = g.filter(at.plane % g.y_channels), first = g.first_input(filter);
        V sum = 0;
        for (std::int64_t i = 0; i < g.ci; ++i) {
          std::int64_t plane = (at.plane / g.y_channels * g.x_channels + first + i) * g.x_plane;
          std::int64_t kernel = (filter * g.ci + i) * g.kernel_area;
          for (int a = 0; a < rows.kernel; ++a) {
            int row = rows.position(at.row, a);
            if (!rows.inside(row)) continue;
            for (int b = 0; b < columns.kernel; ++b) {
              int column = columns.position(at.column, b);
              if (columns.inside(column))
                sum += x.load(plane + row * columns.size + column) * w.load(kernel + a * columns.kernel + b);
            }
          }
        }
        y.store(to, relu && sum <= 0 ? 0 : sum);
      });
}
UNITY_CUDA_KERNEL(conv2d)

// `sum`: what is added, which may be where the result is; null: nothing.
template <class R>
void conv_input_gradient(const Call& c, const Operand* sum) {
  using V = typename R::Value;
  auto w = reals<R>(c.inputs[0]), dy = reals<R>(c.inputs[1]), dx = reals<R>(c.outputs[0]);
  const bool add = sum != nullptr;
  auto addend = reals<R>(add ? *sum : c.outputs[0]);
  Convolution g = convolution_of(c.attributes, c.outputs[0], c.inputs[0], c.inputs[1]);
  for_each(
      c.stream, c.outputs[0].elements(), UNITY_LAMBDA(std::int64_t to) {
        const WindowLoop &rows = g.image.rows, &columns = g.image.columns;
        Pixel at = pixel_at(to, rows.size, columns.size);
        std::int64_t channel = at.plane % g.x_channels;
        V total = add ? addend.load(to) : V(0);
        for (std::int64_t o = 0; o < g.y_channels; ++o) {
          std::int64_t filter = g.filter(o), i = channel - g.first_input(filter);
          if (filter < 0 || filter >= g.co || i < 0 || i >= g.ci) continue;  // another group's
          std::int64_t plane = (at.plane / g.x_channels * g.y_channels + o) * g.y_plane;
          std::int64_t kernel = (filter * g.ci + i) * g.kernel_area;
          for (int a = 0; a < rows.kernel; ++a) {
            int row = rows.window(at.row, a);
            if (row < 0) continue;
            for (int b = 0; b < columns.kernel; ++b) {
              int column = columns.window(at.column, b);
              if (column >= 0)
                total += dy.load(plane + row * columns.windows + column) * w.load(kernel + a * columns.kernel + b);
            }
          }
        }
        dx.store(to, total);
      });
}

template <class R>
void conv2d_input_gradient_of(const Call& c) {
  if (c.channels_last) return through_rows(c, &conv2d_input_gradient_of<R>);
  conv_input_gradient<R>(c, nullptr);
}
UNITY_CUDA_KERNEL(conv2d_input_gradient)

template <class R>
void conv2d_input_gradient_accumulate_of(const Call& c) {
  if (c.channels_last) return through_rows(c, &conv2d_input_gradient_accumulate_of<R>);
  conv_input_gradient<R>(c, &c.inputs[3]);
}
UNITY_CUDA_KERNEL(conv2d_input_gradient_accumulate)

// One group of threads to an element of the result: a sum over all windows.
template <class R>
void conv_weight_gradient(const Call& c, const Operand* sum) {
  using V = typename R::Value;
  auto x = reals<R>(c.inputs[0]), dy = reals<R>(c.inputs[1]), dw = reals<R>(c.outputs[0]);
  const bool add = sum != nullptr;
  auto addend = reals<R>(add ? *sum : c.outputs[0]);
  Convolution g = convolution_of(c.attributes, c.inputs[0], c.outputs[0], c.inputs[1]);
  std::int64_t windows = g.n * g.y_plane;
  for_each_group(
      c.stream, c.outputs[0].elements(), windows, UNITY_LAMBDA(std::int64_t k, const Group& group) {
        const WindowLoop &rows = g.image.rows, &columns = g.image.columns;
        Pixel at = pixel_at(k, rows.kernel, columns.kernel);
        std::int64_t filter = at.plane / g.ci, o = filter + g.o_first - g.y_first;
        std::int64_t channel = g.first_input(filter) + at.plane % g.ci;
        V total = 0;
        for (std::int64_t t = group.rank(); t < windows && o >= 0 && o < g.y_channels; t += group.size()) {
          Pixel to = pixel_at(t, rows.windows, columns.windows);  // its plane is the sample
          int row = rows.position(to.row, at.row), column = columns.position(to.column, at.column);
          if (!rows.inside(row) || !columns.inside(column)) continue;
          V slope = dy.load((to.plane * g.y_channels + o) * g.y_plane + t % g.y_plane);
          total += slope * x.load((to.plane * g.x_channels + channel) * g.x_plane + row * columns.size + column);
        }
        total = group.sum(total);
        if (group.rank() == 0) dw.store(k, add ? addend.load(k) + total : total);
      });
}

template <class R>
void conv2d_weight_gradient_of(const Call& c) {
  if (c.channels_last) return through_rows(c, &conv2d_weight_gradient_of<R>);
  conv_weight_gradient<R>(c, nullptr);
}
UNITY_CUDA_KERNEL(conv2d_weight_gradient)

template <class R>
void conv2d_weight_gradient_accumulate_of(const Call& c) {
  if (c.channels_last) return through_rows(c, &conv2d_weight_gradient_accumulate_of<R>);
  conv_weight_gradient<R>(c, &c.inputs[3]);
}
UNITY_CUDA_KERNEL(conv2d_weight_gradient_accumulate)

}  // namespace unity::cuda
