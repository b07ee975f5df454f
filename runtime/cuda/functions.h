// The element-wise operators as functions of single elements: one definition, for the kernels of the operators
// (kernels/elementwise.cu) and for those of chains (kernels/chain.cu). Each has the name of its
// class in operators.def, where a missing one is a compile error that names it; T is float or double.
#pragma once

#include "core/ops/attributes.h"
#include "runtime/cuda/math.h"

namespace unity::cuda {

// The one attribute that such an operator may have, as a number: of an element type, whether it is i32; 0 without any.
inline double parameter_of(const Attributes& attributes) {
  if (attributes.empty()) return 0;
  const auto* text = std::get_if<std::string>(&attributes[0]);
  return text ? *text == "i32" : real_attribute(attributes, 0);
}

namespace functions {

// The normal distribution at x: how much lies below, and how densely.
template <class T>
struct Normal {
  T cumulative, density;
};
UNITY_DEVICE Normal<double> normal(double x) {
  return {0.5 * (1 + erf(x * M_SQRT1_2)), exp(-0.5 * x * x) * (0.5 * M_SQRT1_2 * M_2_SQRTPI)};
}
// In half of erff's instructions, with one exponential for both: within 2e-7. The tail beyond |x| is e^(-x^2 / 2) / 2
// times a polynomial in 1 / (1 + p |x| / sqrt(2)) (Abramowitz and Stegun, "Handbook of Mathematical
// Functions", 7.1.26).
UNITY_DEVICE Normal<float> normal(float x) {
  float t = reciprocal(1 + static_cast<float>(0.3275911 * M_SQRT1_2) * fabs(x)), e = exp_of_negative(-0.5f * x * x);
  float sum = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  float tail = 0.5f * sum * e;
  return {x < 0 ? tail : 1 - tail, e * static_cast<float>(0.5 * M_SQRT1_2 * M_2_SQRTPI)};
}
template <class T>
UNITY_DEVICE T gelu_slope(T x) {
  Normal<T> at = normal(x);
  return at.cumulative + x * at.density;
}

#define UNITY_OF_ONE(Class, expression)                         \
  template <class T>                                            \
  struct Class {                                                \
    static constexpr int kOperands = 1;                         \
    T parameter;                                                \
    UNITY_DEVICE T operator()(T x) const { return expression; } \
  };
#define UNITY_OF_TWO(Class, x, y, expression)                        \
  template <class T>                                                 \
  struct Class {                                                     \
    static constexpr int kOperands = 2;                              \
    T parameter;                                                     \
    UNITY_DEVICE T operator()(T x, T y) const { return expression; } \
  };
#define UNITY_OF_THREE(Class, x, y, z, expression)                        \
  template <class T>                                                      \
  struct Class {                                                          \
    static constexpr int kOperands = 3;                                   \
    T parameter;                                                          \
    UNITY_DEVICE T operator()(T x, T y, T z) const { return expression; } \
  };

UNITY_OF_ONE(Cast, parameter != 0 ? static_cast<T>(static_cast<std::int32_t>(x)) : x)
UNITY_OF_ONE(Erf, erf(x))
UNITY_OF_ONE(Exp, exp(x))
UNITY_OF_ONE(Gelu, x* normal(x).cumulative)
UNITY_OF_ONE(Log, log(x))
UNITY_OF_ONE(Power, parameter == 2         ? x * x
                    : parameter == -1      ? 1 / x
                    : parameter == T(-0.5) ? 1 / sqrt(x)
                                           : pow(x, parameter))
UNITY_OF_ONE(Relu, x <= 0 ? T(0) : x)  // NaN stays, as in all that follow
UNITY_OF_ONE(Scale, parameter* x)
UNITY_OF_ONE(Shift, x + parameter)
UNITY_OF_ONE(Sigmoid, sigmoid(x))
UNITY_OF_ONE(Silu, x* sigmoid(x))
UNITY_OF_ONE(Sqrt, sqrt(x))
UNITY_OF_ONE(Tanh, tanh(x))

UNITY_OF_TWO(Add, x, y, x + y)
UNITY_OF_TWO(Div, x, y, x / y)
UNITY_OF_TWO(Greater, x, y, x > y ? T(1) : T(0))
UNITY_OF_TWO(Maximum, x, y, x > y || x != x ? x : y)
UNITY_OF_TWO(Minimum, x, y, y > x || x != x ? x : y)
UNITY_OF_TWO(Mul, x, y, x* y)
UNITY_OF_TWO(Sub, x, y, x - y)

// The first operand is that of the forward operator, or its result, as the operator says.
UNITY_OF_TWO(GeluGradient, x, dy, gelu_slope(x) * dy)
UNITY_OF_TWO(ReluGradient, y, dy, y <= 0 ? T(0) : dy)
UNITY_OF_TWO(SigmoidGradient, y, dy, y*(1 - y) * dy)
UNITY_OF_TWO(SiluGradient, x, dy, sigmoid(x) * (1 + x * (1 - sigmoid(x))) * dy)
UNITY_OF_TWO(TanhGradient, y, dy, (1 - y * y) * dy)

UNITY_OF_THREE(Where, condition, x, y, condition != 0 ? x : y)

#undef UNITY_OF_ONE
#undef UNITY_OF_TWO
#undef UNITY_OF_THREE

}  // namespace functions
}  // namespace unity::cuda
