// For the reference evaluators of operators that work on rows, the last dimension (softmax, layer norm, cross-entropy).
#pragma once

#include <algorithm>

#include "core/ops/reference.h"

namespace unity {

inline std::int64_t row_count(const Operand& x) { return x.extent.back() ? x.elements() / x.extent.back() : 0; }

// Rows of the logical tensor.
inline std::int64_t global_rows(const Operand& x) {
  return x.global.back() ? element_count(x.global) / x.global.back() : 0;
}

// e[j] = exp(x[j] - shift) and their sum. The shift is the maximum in f64, where exp could overflow; in the exact types
// it is 0, or the maximum where the result shows it.
template <class T>
struct Exponentials {
  T sum{0}, shift{0};
};
template <class T>
Exponentials<T> exponentials(const T* x, std::int64_t c, T* e, bool shifted = std::is_same_v<T, double>) {
  Exponentials<T> r;
  if (shifted) r.shift = *std::max_element(x, x + c, [](T a, T b) { return greater(b, a); });
  for (std::int64_t j = 0; j < c; ++j) r.sum += e[j] = num::apply(num::Function::exp, x[j] - r.shift);
  return r;
}

}  // namespace unity
