// Arithmetic for the reference evaluator over f64, i64 and integers modulo a prime. In the exact types each nonlinear
// function has a stand-in: some fixed function without algebraic structure, so that two expressions agree by accident
// only with negligible probability, and never because of an identity that the real function lacks.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

#include "core/base/hash.h"
#include "core/ops/operator.h"

namespace unity {

// Integers modulo the Mersenne prime 2^61 - 1, and one value that is no number: a quotient by zero, and whatever is
// computed from one. So sides that are equal only where no divisor is zero are seen to differ.
struct Mod {
  static constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;
  static constexpr std::uint64_t kUndefined = ~std::uint64_t{0} >> 1;
  std::uint64_t value = 0;

  constexpr Mod() = default;
  constexpr Mod(std::int64_t v)
      : value(static_cast<std::uint64_t>(((v % static_cast<std::int64_t>(kPrime)) + static_cast<std::int64_t>(kPrime)) %
                                         static_cast<std::int64_t>(kPrime))) {}
  static constexpr Mod undefined() {
    Mod m;
    m.value = kUndefined;
    return m;
  }
  static constexpr bool defined(Mod a, Mod b) { return ((a.value | b.value) >> 61) == 0; }
  constexpr Mod& operator+=(Mod o) {
    if (!defined(*this, o)) return *this = undefined();
    return value += o.value, value -= value >= kPrime ? kPrime : 0, *this;
  }
  constexpr Mod& operator-=(Mod o) {
    if (!defined(*this, o)) return *this = undefined();
    return value += kPrime - o.value, value -= value >= kPrime ? kPrime : 0, *this;
  }
  constexpr Mod& operator*=(Mod o) {
    if (!defined(*this, o)) return *this = undefined();
    auto product = static_cast<unsigned __int128>(value) * o.value;
    value = static_cast<std::uint64_t>(product & kPrime) + static_cast<std::uint64_t>(product >> 61);
    value -= value >= kPrime ? kPrime : 0;
    return *this;
  }
  friend constexpr Mod operator+(Mod a, Mod b) { return a += b; }
  friend constexpr Mod operator-(Mod a, Mod b) { return a -= b; }
  friend constexpr Mod operator*(Mod a, Mod b) { return a *= b; }
  constexpr Mod power(std::uint64_t e) const {
    Mod base = *this, r(1);
    for (; e; e >>= 1, base *= base)
      if (e & 1) r *= base;
    return r;
  }
  friend constexpr Mod operator/(Mod a, Mod b) {  // Fermat
    return b.value == 0 ? undefined() : a * b.power(kPrime - 2);
  }
  constexpr bool operator==(const Mod&) const = default;
};

namespace num {

enum class Function : std::uint8_t { relu, step, gelu, gelu_slope, tanh, sigmoid, exp, log, sqrt, reciprocal, erf };

inline double apply(Function f, double x) {
  switch (f) {
    case Function::relu:
      return x <= 0 ? 0 : x;  // what is no number stays none
    case Function::step:
      return x <= 0 ? 0 : 1;
    case Function::gelu:
      return 0.5 * x * (1 + std::erf(x * M_SQRT1_2));
    case Function::gelu_slope:
      return 0.5 * (1 + std::erf(x * M_SQRT1_2)) + x * std::exp(-0.5 * x * x) * 0.5 * M_SQRT1_2 * M_2_SQRTPI;
    case Function::tanh:
      return std::tanh(x);
    case Function::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Function::exp:
      return std::exp(x);
    case Function::log:
      return std::log(x);
    case Function::sqrt:
      return std::sqrt(x);
    case Function::reciprocal:
      return 1 / x;
    case Function::erf:
      return std::erf(x);
  }
  return 0;
}
inline Mod apply(Function f, Mod x) {
  if (!Mod::defined(x, x)) return x;
  if (f == Function::reciprocal) return Mod(1) / x;
  Mod r;
  r.value = combine(x.value, static_cast<Hash>(f) + 1) % Mod::kPrime;
  return r;
}
inline std::int64_t apply(Function f, std::int64_t x) {
  if (f == Function::relu) return x > 0 ? x : 0;
  if (f == Function::step) return x > 0 ? 1 : 0;
  return static_cast<std::int64_t>(combine(static_cast<Hash>(x), static_cast<Hash>(f) + 1) >> 44) - (1 << 19);
}

}  // namespace num

// A real constant in the arithmetic of T. In the exact types constants that are not integers become a fixed stand-in.
template <class T>
T constant(double c) {
  if constexpr (std::is_same_v<T, double>) {
    return c;
  } else {
    auto integer = static_cast<std::int64_t>(c);
    if (static_cast<double>(integer) == c) return T(integer);
    return T(static_cast<std::int64_t>(hash_number(c) >> 34));
  }
}

// Calls body.template operator()<T>() for an element type of the reference evaluator.
template <class Body>
void dispatch_reference_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f64:
      body.template operator()<double>();
      break;
    case DType::i64:
      body.template operator()<std::int64_t>();
      break;
    case DType::mod:
      body.template operator()<Mod>();
      break;
    default:
      UNITY_CHECK(false, "the reference evaluator has no element type {}", to_string(dtype));
  }
}
// The same for that of the call's first result.
template <class Body>
void dispatch_reference(const OpCall& call, Body&& body) {
  dispatch_reference_type(call.outputs[0].dtype, std::forward<Body>(body));
}

// An order of the elements: the usual one, and for integers modulo a prime that of their representatives.
template <class T>
bool greater(T a, T b) {
  if constexpr (std::is_same_v<T, Mod>)
    return a.value > b.value;
  else
    return a > b;
}

template <class T>
bool is_no_number(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(x);
  else
    return false;
}

// Whether `a` takes the place of `b` as the largest, or the smallest: what is no number does, once.
template <class T>
bool takes_place_of(T a, T b, bool larger) {
  return (larger ? greater(a, b) : greater(b, a)) || (is_no_number(a) && !is_no_number(b));
}

// Visits every index of a block in row-major order: f(index, linear position).
template <class F>
void for_each_index(const Dims& extent, F&& f) {
  std::int64_t n = element_count(extent);
  Dims index(extent.size(), 0);
  for (std::int64_t i = 0; i < n; ++i) {
    f(std::as_const(index), i);
    for (std::size_t d = extent.size(); d-- > 0;) {
      if (++index[d] < extent[d]) break;
      index[d] = 0;
    }
  }
}

// Row-major position of an index in a block.
inline std::int64_t position(const Dims& extent, const Dims& index) {
  std::int64_t p = 0;
  for (std::size_t d = 0; d < extent.size(); ++d) p = p * extent[d] + index[d];
  return p;
}

}  // namespace unity
