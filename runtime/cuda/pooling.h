// What the kernels of pooling share, whichever way their operands lie.
#pragma once

#include "core/ops/pooling.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/math.h"
#include "runtime/cuda/windows.h"

namespace unity::cuda {

// The same operators of operands with channels last.
void max_pool2d_channels_last_kernel(const Call& c);
void max_pool2d_gradient_channels_last_kernel(const Call& c);
void avg_pool2d_channels_last_kernel(const Call& c);
void avg_pool2d_gradient_channels_last_kernel(const Call& c);

// One over what a window's sum is divided by.
template <class V>
struct Share {
  bool include_pad;
  V of_all;
  UNITY_DEVICE static int inside(const WindowLoop& w, int at) {
    int begin = w.position(at, 0), end = begin + w.kernel;
    int n = (end < w.size ? end : w.size) - (begin > 0 ? begin : 0);
    return n > 0 ? n : 1;
  }
  UNITY_DEVICE V of(const WindowLoop& rows, const WindowLoop& columns, int r, int w) const {
    return include_pad ? of_all : reciprocal(static_cast<V>(inside(rows, r) * inside(columns, w)));
  }
};
template <class V>
Share<V> share_of(const Call& c, const Image& g) {
  return {int_attribute(c.attributes, 3) != 0, 1 / (static_cast<V>(g.rows.kernel) * static_cast<V>(g.columns.kernel))};
}

}  // namespace unity::cuda
