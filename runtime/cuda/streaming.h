// Reading and writing what is not used again soon, past the caches' usual order: it is the first to leave them, so that
// what comes back sooner stays. Four neighbours at a time, which begin at a multiple of their size.
#pragma once

#include <cstring>

#include "runtime/cuda/elements.h"

namespace unity::cuda {

template <class T>
UNITY_DEVICE Four<T> load_streaming(const T* from) {
  Four<T> x;
#ifdef __CUDA_ARCH__
  using Part = std::conditional_t<sizeof(x) == 8, uint2, uint4>;
  Part parts[sizeof(x) / sizeof(Part)];
  for (std::size_t i = 0; i < sizeof(x) / sizeof(Part); ++i) parts[i] = __ldcs(reinterpret_cast<const Part*>(from) + i);
  std::memcpy(&x, parts, sizeof x);
#else
  std::memcpy(&x, from, sizeof x);
#endif
  return x;
}

template <class T>
UNITY_DEVICE void store_streaming(T* to, const Four<T>& x) {
#ifdef __CUDA_ARCH__
  using Part = std::conditional_t<sizeof(x) == 8, uint2, uint4>;
  Part parts[sizeof(x) / sizeof(Part)];
  std::memcpy(parts, &x, sizeof x);
  for (std::size_t i = 0; i < sizeof(x) / sizeof(Part); ++i) __stcs(reinterpret_cast<Part*>(to) + i, parts[i]);
#else
  std::memcpy(to, &x, sizeof x);
#endif
}

}  // namespace unity::cuda
