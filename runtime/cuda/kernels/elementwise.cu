// The element-wise operators, one kernel each; functions.h says what they compute.
#include "runtime/cuda/elementwise.h"
#include "runtime/cuda/functions.h"

namespace unity::cuda {
namespace {

template <template <class> class Function, class R>
auto function(const Call& c) {
  return Function<typename R::Value>{static_cast<typename R::Value>(parameter_of(c.attributes))};
}

}  // namespace

#define UNITY_UNARY(name, Class)                   \
  template <class R>                               \
  void name##_of(const Call& c) {                  \
    unary<R>(c, function<functions::Class, R>(c)); \
  }                                                \
  UNITY_CUDA_KERNEL(name)
UNITY_UNARY(erf, Erf)
UNITY_UNARY(exp, Exp)
UNITY_UNARY(gelu, Gelu)
UNITY_UNARY(log, Log)
UNITY_UNARY(power, Power)
UNITY_UNARY(relu, Relu)
UNITY_UNARY(scale, Scale)
UNITY_UNARY(shift, Shift)
UNITY_UNARY(sigmoid, Sigmoid)
UNITY_UNARY(silu, Silu)
UNITY_UNARY(sqrt, Sqrt)
UNITY_UNARY(tanh, Tanh)

#define UNITY_UNARY_GRADIENT(name, Class)                   \
  template <class R>                                        \
  void name##_of(const Call& c) {                           \
    unary_gradient<R>(c, function<functions::Class, R>(c)); \
  }                                                         \
  UNITY_CUDA_KERNEL(name)
UNITY_UNARY_GRADIENT(gelu_gradient, GeluGradient)
UNITY_UNARY_GRADIENT(relu_gradient, ReluGradient)
UNITY_UNARY_GRADIENT(sigmoid_gradient, SigmoidGradient)
UNITY_UNARY_GRADIENT(silu_gradient, SiluGradient)
UNITY_UNARY_GRADIENT(tanh_gradient, TanhGradient)

#define UNITY_BINARY(name, Class)                   \
  template <class R>                                \
  void name##_of(const Call& c) {                   \
    binary<R>(c, function<functions::Class, R>(c)); \
  }                                                 \
  UNITY_CUDA_KERNEL(name)
UNITY_BINARY(add, Add)
UNITY_BINARY(sub, Sub)
UNITY_BINARY(mul, Mul)
UNITY_BINARY(div, Div)
UNITY_BINARY(maximum, Maximum)
UNITY_BINARY(minimum, Minimum)

template <class R>
void greater_of(const Call& c) {
  const Operand &x = c.inputs[0], &y = c.inputs[1], &z = c.outputs[0];
  map(c.stream, broadcast_loops(z, x, y), function<functions::Greater, R>(c), indices(z), reals<R>(x), reals<R>(y));
}
UNITY_CUDA_KERNEL(greater)

template <class R>
void where_of(const Call& c) {
  const Operand &condition = c.inputs[0], &x = c.inputs[1], &y = c.inputs[2], &z = c.outputs[0];
  map(c.stream, broadcast_loops(z, condition, x, y), function<functions::Where, R>(c), reals<R>(z), indices(condition),
      reals<R>(x), reals<R>(y));
}
UNITY_CUDA_KERNEL(where)

template <class R>
void cast_of(const Call& c) {
  const Operand &x = c.inputs[0], &y = c.outputs[0];
  auto f = function<functions::Cast, R>(c);
  std::int64_t n = y.elements();
  if (x.dtype != DType::i32 && y.dtype == DType::i32)
    map_dense(c.stream, n, f, indices(y), reals<R>(x));
  else if (x.dtype == DType::i32 && y.dtype != DType::i32)
    map_dense(c.stream, n, f, reals<R>(y), indices(x));
  else
    map_dense(c.stream, n, f, reals<R>(y), reals<R>(x));
}
UNITY_CUDA_MOVEMENT(cast)

}  // namespace unity::cuda
