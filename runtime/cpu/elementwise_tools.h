// For kernel sources only: element-wise kernels as plain loops over blocks, with numpy's broadcasting, shared out to
// the threads of the device.
#pragma once

#include "runtime/cpu/kernel_tools.h"

namespace unity::cpu {

// y = f(x).
template <class F>
void unary(const OpCall& call, F&& f) {
  dispatch(call, [&]<class T>() {
    const T* x = call.inputs[0].as<T>();
    T* y = call.outputs[0].as<T>();
    parallel_for(call.outputs[0].elements(), kGrain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = f(x[i]);
    });
  });
}

// dx = f(r, dy) with r the operand or result of the forward operator.
template <class F>
void unary_gradient(const OpCall& call, F&& f) {
  dispatch(call, [&]<class T>() {
    const T *r = call.inputs[0].as<T>(), *dy = call.inputs[1].as<T>();
    T* dx = call.outputs[0].as<T>();
    parallel_for(call.outputs[0].elements(), kGrain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) dx[i] = f(r[i], dy[i]);
    });
  });
}

// z = f(x, y) with broadcasting.
template <class F>
void binary(const OpCall& call, F&& f) {
  const Dims& extent = call.outputs[0].extent;
  Dims sx = broadcast_strides(call.inputs[0], extent), sy = broadcast_strides(call.inputs[1], extent);
  Dims sz = strides(extent);
  std::vector<Loop<3>> loops;
  for (std::size_t d = 0; d < extent.size(); ++d) loops.push_back({extent[d], {sx[d], sy[d], sz[d]}});
  loops = collapse(loops);
  auto [ix, iy, iz] = loops.back().stride;
  dispatch(call, [&]<class T>() {
    parallel_outer(loops, [&, ix = ix, iy = iy](const std::array<std::int64_t, 3>& at, std::int64_t n) {
      const T *x = call.inputs[0].as<T>() + at[0], *y = call.inputs[1].as<T>() + at[1];
      T* z = call.outputs[0].as<T>() + at[2];
      if (ix == 1 && iy == 1)
        for (std::int64_t i = 0; i < n; ++i) z[i] = f(x[i], y[i]);
      else if (iy == 0)
        for (std::int64_t i = 0; i < n; ++i) z[i] = f(x[i * ix], *y);
      else
        for (std::int64_t i = 0; i < n; ++i) z[i] = f(x[i * ix], y[i * iy]);
    });
  });
}

}  // namespace unity::cpu
