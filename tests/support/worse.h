// Maxima of errors: std::max passes over what is not a number, so that a check of it could not fail.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace unity::test {

// The larger one; infinite where `error` is not a number.
template <class T>
T worse(T worst, T error) {
  return std::isnan(error) ? std::numeric_limits<T>::infinity() : std::max(worst, error);
}

}  // namespace unity::test
