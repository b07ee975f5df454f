// Functions of normalisations and softmax, for device code and its emulation.
#pragma once

#include <limits>

#include "runtime/cuda/math.h"

namespace unity::cuda {

template <class T>
UNITY_DEVICE T inverse_root(T x) {
  return 1 / sqrt(x);
}

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
