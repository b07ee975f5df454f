// Pooling: one thread to an element of the result. Gradients gather from the windows that cover an element.
#include "core/ops/pooling.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/norm_math.h"
#include "runtime/cuda/windows.h"

namespace unity::cuda {
namespace {

template <class V>
struct Best {
  int position;  // in its plane; -1: the window covers padding alone
  V value;
};

// The first maximum of a window in row-major order.
template <class V, class Array>
UNITY_DEVICE Best<V> best_of_window(const Image& g, const Array& x, const Pixel& at) {
  Best<V> best{-1, 0};
  std::int64_t plane = at.plane * g.rows.size * g.columns.size;
  for (int a = 0; a < g.rows.kernel; ++a) {
    int row = g.rows.position(at.row, a);
    if (!g.rows.inside(row)) continue;
    for (int b = 0; b < g.columns.kernel; ++b) {
      int column = g.columns.position(at.column, b);
      if (!g.columns.inside(column)) continue;
      int position = row * g.columns.size + column;
      V value = x.load(plane + position);
      if (best.position < 0 || exceeds(value, best.value)) best = {position, value};
    }
  }
  return best;
}

// The sum over the windows that cover position `at` of x of f(index of the window's result, row of windows, column).
template <class V, class F>
UNITY_DEVICE V sum_of_windows(const Image& g, const Pixel& at, F f) {
  V sum = 0;
  for (int a = g.rows.kernel - 1; a >= 0; --a) {
    int row = g.rows.window(at.row, a);
    if (row < 0) continue;
    for (int b = g.columns.kernel - 1; b >= 0; --b) {
      int column = g.columns.window(at.column, b);
      if (column >= 0) sum += f((at.plane * g.rows.windows + row) * g.columns.windows + column, row, column);
    }
  }
  return sum;
}

struct Divisor {
  bool include_pad;
  UNITY_DEVICE int of(const WindowLoop& w, int at) const {
    int n = include_pad ? w.kernel : w.inside_count(at);
    return n > 0 ? n : 1;
  }
};

}  // namespace

template <class R>
void max_pool2d_of(const Call& c) {
  using V = typename R::Value;
  auto x = reals<R>(c.inputs[0]), y = reals<R>(c.outputs[0]);
  Image g =
      image_of(max_pool2d_windows("max_pool2d", c.attributes, c.inputs[0].global).value(), c.inputs[0], c.outputs[0]);
  for_each(
      c.stream, c.outputs[0].elements(), UNITY_LAMBDA(std::int64_t o) {
        y.store(o, best_of_window<V>(g, x, pixel_at(o, g.rows.windows, g.columns.windows)).value);
      });
}
UNITY_CUDA_KERNEL(max_pool2d)

// First where each window has its maximum, then what comes back to each position.
template <class R>
void max_pool2d_gradient_of(const Call& c) {
  using V = typename R::Value;
  auto x = reals<R>(c.inputs[0]), dy = reals<R>(c.inputs[1]), dx = reals<R>(c.outputs[0]);
  Image g =
      image_of(max_pool2d_windows("max_pool2d", c.attributes, c.inputs[0].global).value(), c.inputs[0], c.inputs[1]);
  std::int64_t windows = c.inputs[1].elements();
  auto* best = static_cast<int*>(c.scratch(windows * static_cast<std::int64_t>(sizeof(int))));
  for_each(
      c.stream, windows, UNITY_LAMBDA(std::int64_t o) {
        best[o] = best_of_window<V>(g, x, pixel_at(o, g.rows.windows, g.columns.windows)).position;
      });
  for_each(
      c.stream, c.outputs[0].elements(), UNITY_LAMBDA(std::int64_t i) {
        Pixel at = pixel_at(i, g.rows.size, g.columns.size);
        int position = at.row * g.columns.size + at.column;
        dx.store(i, sum_of_windows<V>(
                        g, at, [&](std::int64_t o, int, int) { return best[o] == position ? dy.load(o) : V(0); }));
      });
}
UNITY_CUDA_KERNEL(max_pool2d_gradient)

template <class R>
void avg_pool2d_of(const Call& c) {
  using V = typename R::Value;
  auto x = reals<R>(c.inputs[0]), y = reals<R>(c.outputs[0]);
  Image g =
      image_of(avg_pool2d_windows("avg_pool2d", c.attributes, c.inputs[0].global).value(), c.inputs[0], c.outputs[0]);
  Divisor divisor{int_attribute(c.attributes, 3) != 0};
  for_each(
      c.stream, c.outputs[0].elements(), UNITY_LAMBDA(std::int64_t o) {
        Pixel at = pixel_at(o, g.rows.windows, g.columns.windows);
        std::int64_t plane = at.plane * g.rows.size * g.columns.size;
        V sum = 0;
        for (int a = 0; a < g.rows.kernel; ++a) {
          int row = g.rows.position(at.row, a);
          if (!g.rows.inside(row)) continue;
          for (int b = 0; b < g.columns.kernel; ++b) {
            int column = g.columns.position(at.column, b);
            if (g.columns.inside(column)) sum += x.load(plane + row * g.columns.size + column);
          }
        }
        y.store(o, sum / static_cast<V>(divisor.of(g.rows, at.row) * divisor.of(g.columns, at.column)));
      });
}
UNITY_CUDA_KERNEL(avg_pool2d)

template <class R>
void avg_pool2d_gradient_of(const Call& c) {
  using V = typename R::Value;
  auto dy = reals<R>(c.inputs[0]), dx = reals<R>(c.outputs[0]);
  Image g =
      image_of(avg_pool2d_windows("avg_pool2d", c.attributes, c.outputs[0].global).value(), c.outputs[0], c.inputs[0]);
  Divisor divisor{int_attribute(c.attributes, 3) != 0};
  for_each(
      c.stream, c.outputs[0].elements(), UNITY_LAMBDA(std::int64_t i) {
        auto share = [&](std::int64_t o, int row, int column) {
          return dy.load(o) / static_cast<V>(divisor.of(g.rows, row) * divisor.of(g.columns, column));
        };
        dx.store(i, sum_of_windows<V>(g, pixel_at(i, g.rows.size, g.columns.size), share));
      });
}
UNITY_CUDA_KERNEL(avg_pool2d_gradient)

}  // namespace unity::cuda
