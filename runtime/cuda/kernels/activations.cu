// Activation functions and their gradients.
#include "runtime/cuda/elementwise.h"
#include "runtime/cuda/math.h"

namespace unity::cuda {

#define UNITY_ACTIVATION(name, expression)            \
  template <class R>                                  \
  void name##_of(const Call& c) {                     \
    using T = typename R::Value;                      \
    unary<R>(                                         \
        c, UNITY_LAMBDA(T x) { return expression; }); \
  }                                                   \
  UNITY_CUDA_KERNEL(name)

// r is the operand of the forward operator, or its result, as the operator says.
#define UNITY_ACTIVATION_GRADIENT(name, r, expression)      \
  template <class R>                                        \
  void name##_of(const Call& c) {                           \
    using T = typename R::Value;                            \
    unary_gradient<R>(                                      \
        c, UNITY_LAMBDA(T r, T dy) { return expression; }); \
  }                                                         \
  UNITY_CUDA_KERNEL(name)

template <class T>
UNITY_DEVICE T normal_cumulative(T x) {
  return T(0.5) * (1 + erf(x * T(M_SQRT1_2)));
}
template <class T>
UNITY_DEVICE T normal_density(T x) {
  return exp(T(-0.5) * x * x) * T(0.5 * M_SQRT1_2 * M_2_SQRTPI);
}

UNITY_ACTIVATION(gelu, x* normal_cumulative(x))
UNITY_ACTIVATION_GRADIENT(gelu_gradient, x, (normal_cumulative(x) + x * normal_density(x)) * dy)
UNITY_ACTIVATION(relu, x > 0 ? x : T(0))
UNITY_ACTIVATION_GRADIENT(relu_gradient, y, y > 0 ? dy : T(0))
UNITY_ACTIVATION(sigmoid, sigmoid(x))
UNITY_ACTIVATION_GRADIENT(sigmoid_gradient, y, y*(1 - y) * dy)
UNITY_ACTIVATION(silu, x* sigmoid(x))
UNITY_ACTIVATION_GRADIENT(silu_gradient, x, sigmoid(x) * (1 + x * (1 - sigmoid(x))) * dy)
UNITY_ACTIVATION(tanh, tanh(x))
UNITY_ACTIVATION_GRADIENT(tanh_gradient, y, (1 - y * y) * dy)

}  // namespace unity::cuda
