// Element-wise arithmetic, comparisons and choices, with broadcasting.
#include "runtime/cuda/elementwise.h"
#include "runtime/cuda/math.h"

namespace unity::cuda {

#define UNITY_UNARY(name, expression)                                 \
  template <class R>                                                  \
  void name##_of(const Call& c) {                                     \
    unary<R>(                                                         \
        c, UNITY_LAMBDA(typename R::Value x) { return expression; }); \
  }                                                                   \
  UNITY_CUDA_KERNEL(name)
UNITY_UNARY(erf, erf(x))
UNITY_UNARY(exp, exp(x))
UNITY_UNARY(log, log(x))
UNITY_UNARY(sqrt, sqrt(x))

template <class R>
void scale_of(const Call& c) {
  auto factor = static_cast<typename R::Value>(real_attribute(c.attributes, 0));
  unary<R>(
      c, UNITY_LAMBDA(typename R::Value x) { return factor * x; });
}
UNITY_CUDA_KERNEL(scale)

template <class R>
void shift_of(const Call& c) {
  auto amount = static_cast<typename R::Value>(real_attribute(c.attributes, 0));
  unary<R>(
      c, UNITY_LAMBDA(typename R::Value x) { return x + amount; });
}
UNITY_CUDA_KERNEL(shift)

template <class R>
void power_of(const Call& c) {
  using T = typename R::Value;
  auto e = static_cast<T>(real_attribute(c.attributes, 0));
  if (e == 2)
    return unary<R>(
        c, UNITY_LAMBDA(T x) { return x * x; });
  if (e == -1)
    return unary<R>(
        c, UNITY_LAMBDA(T x) { return 1 / x; });
  if (e == T(-0.5))
    return unary<R>(
        c, UNITY_LAMBDA(T x) { return 1 / sqrt(x); });
  unary<R>(
      c, UNITY_LAMBDA(T x) { return pow(x, e); });
}
UNITY_CUDA_KERNEL(power)

#define UNITY_BINARY(name, expression)                                                     \
  template <class R>                                                                       \
  void name##_of(const Call& c) {                                                          \
    binary<R>(                                                                             \
        c, UNITY_LAMBDA(typename R::Value x, typename R::Value y) { return expression; }); \
  }                                                                                        \
  UNITY_CUDA_KERNEL(name)
UNITY_BINARY(add, x + y)
UNITY_BINARY(sub, x - y)
UNITY_BINARY(mul, x* y)
UNITY_BINARY(div, x / y)
UNITY_BINARY(maximum, x > y ? x : y)
UNITY_BINARY(minimum, y > x ? x : y)

template <class R>
void greater_of(const Call& c) {
  const Operand &x = c.inputs[0], &y = c.inputs[1], &z = c.outputs[0];
  using T = typename R::Value;
  map(
      c.stream, broadcast_loops(z, x, y), UNITY_LAMBDA(T a, T b) { return a > b ? 1 : 0; }, indices(z), reals<R>(x),
      reals<R>(y));
}
UNITY_CUDA_KERNEL(greater)

template <class R>
void where_of(const Call& c) {
  const Operand &condition = c.inputs[0], &x = c.inputs[1], &y = c.inputs[2], &z = c.outputs[0];
  using T = typename R::Value;
  map(
      c.stream, broadcast_loops(z, condition, x, y),
      UNITY_LAMBDA(std::int32_t first, T a, T b) { return first != 0 ? a : b; }, reals<R>(z), indices(condition),
      reals<R>(x), reals<R>(y));
}
UNITY_CUDA_KERNEL(where)

template <class R>
void cast_of(const Call& c) {
  const Operand &x = c.inputs[0], &y = c.outputs[0];
  using T = typename R::Value;
  std::int64_t n = y.elements();
  if (x.dtype != DType::i32 && y.dtype == DType::i32)
    map_dense(
        c.stream, n, UNITY_LAMBDA(T v) { return static_cast<std::int32_t>(v); }, indices(y), reals<R>(x));
  else if (x.dtype == DType::i32 && y.dtype != DType::i32)
    map_dense(
        c.stream, n, UNITY_LAMBDA(std::int32_t v) { return static_cast<T>(v); }, reals<R>(y), indices(x));
  else
    map_dense(
        c.stream, n, UNITY_LAMBDA(T v) { return v; }, reals<R>(y), reals<R>(x));
}
UNITY_CUDA_MOVEMENT(cast)

}  // namespace unity::cuda
