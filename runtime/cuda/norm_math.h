// Functions of normalisations and softmax, for device code and its emulation.
#pragma once

#include <limits>

#include <math.h>

#include "runtime/cuda/launch.h"

namespace unity::cuda {

UNITY_DEVICE float exponential(float x) { return ::expf(x); }
UNITY_DEVICE double exponential(double x) { return ::exp(x); }
UNITY_DEVICE float inverse_root(float x) { return 1 / ::sqrtf(x); }
UNITY_DEVICE double inverse_root(double x) { return 1 / ::sqrt(x); }

template <class T>
constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();

// What a maximum takes for x over `best`; NaN stays.
template <class T>
UNITY_DEVICE bool exceeds(T x, T best) {
  return x > best || x != x;
}

// What the gradient of a normalisation reads of one position.
template <class V>
struct NormItem {
  V x, dy;
};

}  // namespace unity::cuda
