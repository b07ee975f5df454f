// Element-wise functions beyond those of neural networks' usual layers: powers, quotients, comparisons, selection.
#include <cmath>

#include "runtime/cpu/elementwise_tools.h"
#include "runtime/cpu/exponential.h"

namespace unity::cpu {

void exp_kernel(const OpCall& call) {
  unary(call, [](auto x) { return unbounded_exponential(x); });
}
void log_kernel(const OpCall& call) {
  unary(call, [](auto x) { return std::log(x); });
}
void sqrt_kernel(const OpCall& call) {
  unary(call, [](auto x) { return std::sqrt(x); });
}
void power_kernel(const OpCall& call) {
  double e = real_attribute(call.attributes, 0);
  if (e == 2) return unary(call, [](auto x) { return x * x; });
  if (e == -1) return unary(call, [](auto x) { return 1 / x; });
  if (e == -0.5) return unary(call, [](auto x) { return 1 / std::sqrt(x); });
  unary(call, [e](auto x) { return std::pow(x, static_cast<decltype(x)>(e)); });
}
void silu_kernel(const OpCall& call) {
  unary(call, [](auto x) { return x / (1 + exponential(-x)); });
}
void silu_gradient_kernel(const OpCall& call) {
  unary_gradient(call, [](auto x, auto dy) {
    auto s = 1 / (1 + exponential(-x));
    return s * (1 + x * (1 - s)) * dy;
  });
}

void sub_kernel(const OpCall& call) {
  binary(call, [](auto x, auto y) { return x - y; });
}
void div_kernel(const OpCall& call) {
  binary(call, [](auto x, auto y) { return x / y; });
}
void maximum_kernel(const OpCall& call) {
  binary(call, [](auto x, auto y) { return larger(x, y); });
}
void minimum_kernel(const OpCall& call) {
  binary(call, [](auto x, auto y) { return y > x || x != x ? x : y; });
}

// Here the result has another element type than the operands.
void greater_kernel(const OpCall& call) {
  const Operand &x = call.inputs[0], &y = call.inputs[1], &z = call.outputs[0];
  Dims sx = broadcast_strides(x, z.extent), sy = broadcast_strides(y, z.extent), sz = strides(z.extent);
  std::vector<Loop<3>> loops;
  for (std::size_t d = 0; d < z.extent.size(); ++d) loops.push_back({z.extent[d], {sx[d], sy[d], sz[d]}});
  loops = collapse(loops);
  auto [ix, iy, iz] = loops.back().stride;
  dispatch_type(x.dtype, [&, ix = ix, iy = iy]<class T>() {
    parallel_outer(loops, [&](const std::array<std::int64_t, 3>& at, std::int64_t n) {
      const T *a = x.as<T>() + at[0], *b = y.as<T>() + at[1];
      for (std::int64_t i = 0; i < n; ++i) z.as<std::int32_t>()[at[2] + i] = a[i * ix] > b[i * iy];
    });
  });
}

void where_kernel(const OpCall& call) {
  const Operand &c = call.inputs[0], &x = call.inputs[1], &y = call.inputs[2], &z = call.outputs[0];
  Dims sc = broadcast_strides(c, z.extent), sx = broadcast_strides(x, z.extent), sy = broadcast_strides(y, z.extent);
  Dims sz = strides(z.extent);
  std::vector<Loop<4>> loops;
  for (std::size_t d = 0; d < z.extent.size(); ++d) loops.push_back({z.extent[d], {sc[d], sx[d], sy[d], sz[d]}});
  loops = collapse(loops);
  auto [ic, ix, iy, iz] = loops.back().stride;
  dispatch(call, [&, ic = ic, ix = ix, iy = iy]<class T>() {
    parallel_outer(loops, [&](const std::array<std::int64_t, 4>& at, std::int64_t n) {
      const std::int32_t* condition = c.as<std::int32_t>() + at[0];
      const T *a = x.as<T>() + at[1], *b = y.as<T>() + at[2];
      for (std::int64_t i = 0; i < n; ++i) z.as<T>()[at[3] + i] = condition[i * ic] != 0 ? a[i * ix] : b[i * iy];
    });
  });
}

void cast_kernel(const OpCall& call) {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  auto convert = [&]<class From, class To>(From*, To*) {
    const From* from = x.as<From>();
    To* to = y.as<To>();
    parallel_for(y.elements(), kGrain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<To>(from[i]);
    });
  };
  auto to_y = [&]<class From>(From* from) {
    if (y.dtype == DType::i32)
      convert(from, static_cast<std::int32_t*>(nullptr));
    else
      dispatch(call, [&]<class T>() { convert(from, static_cast<T*>(nullptr)); });
  };
  if (x.dtype == DType::i32)
    to_y(static_cast<std::int32_t*>(nullptr));
  else
    dispatch_type(x.dtype, [&]<class T>() { to_y(static_cast<T*>(nullptr)); });
}

}  // namespace unity::cpu
