// exp, tanh and erf that the compiler can vectorise, for float; the standard library's for double.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace unity::cpu {

// Relative error below 2e-7 on [-87, 88]; clamped outside, so exp(-infinity) is about 1e-38. NaN stays NaN. Range
// reduction x = n ln 2 + r with ln 2 in two parts (Cody and Waite 1980), then the Taylor polynomial of degree 7 on |r|
// <= ln 2 / 2.
inline float exponential(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves round(x) in the low bits
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  float shifted = x * 1.44269504088896341f + kRound;
  float n = shifted - kRound;
  float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1;
  p = p * r + 1;
  auto exponent = (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kRound) + 127) << 23;
  return p * std::bit_cast<float>(exponent);
}
inline double exponential(double x) { return std::exp(x); }

// The same where what is too large for a number is infinite, and what is below the least normal one 0: of half of x,
// squared, beyond those bounds. Relative error below 5e-7 there.
inline float unbounded_exponential(float x) {
  const bool beyond = x < -87.0f || x > 88.0f, gone = x < -87.3365f;
  float e = exponential(gone ? 0.0f : beyond ? 0.5f * x : x);  // no square is subnormal, which takes long
  return gone ? 0.0f : beyond ? e * e : e;
}
inline double unbounded_exponential(double x) { return std::exp(x); }

// Absolute error below 2e-7: by exp(-2|x|), and by its series where that would cancel.
inline float hyperbolic_tangent(float x) {
  float t = exponential(-2 * std::fabs(x));
  float far = std::copysign((1 - t) / (1 + t), x);
  float s = x * x;
  float near = x * (1 + s * (-1.0f / 3 + s * (2.0f / 15 - s * (17.0f / 315))));
  return s < 0.01f ? near : far;
}
inline double hyperbolic_tangent(double x) { return std::tanh(x); }

// Absolute error below 5e-7 (Abramowitz and Stegun 1964, 7.1.26, and rounding).
inline float error_function(float x) {
  float a = std::fabs(x), t = 1 / (1 + 0.3275911f * a);
  float p = 1.061405429f;
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  return std::copysign(1 - p * t * exponential(-a * a), x);
}
inline double error_function(double x) { return std::erf(x); }

}  // namespace unity::cpu
