// Four neighbouring elements that begin at a multiple of their size, by one instruction for each 16 bytes: of stores of
// structs, compilers make one for each element where branches meet. Also past the caches' usual order, for what is not
// used again soon: it is the first to leave them, so that what comes back sooner stays.
#pragma once

#include <cstring>

#include "runtime/cuda/elements.h"

namespace unity::cuda {

#ifdef __CUDA_ARCH__
template <class T>
struct Parts {
  using Part = std::conditional_t<sizeof(Four<T>) == 8, uint2, uint4>;
  static constexpr int kCount = sizeof(Four<T>) / sizeof(Part);
  Part part[kCount];
};
#endif

template <class T, bool kStreaming = false>
UNITY_DEVICE Four<T> load_vector(const T* from) {
  Four<T> x;
#ifdef __CUDA_ARCH__
  Parts<T> parts;
  auto* at = reinterpret_cast<const typename Parts<T>::Part*>(from);
  for (int i = 0; i < Parts<T>::kCount; ++i) parts.part[i] = kStreaming ? __ldcs(at + i) : at[i];
  std::memcpy(&x, &parts, sizeof x);
#else
  std::memcpy(&x, from, sizeof x);
#endif
  return x;
}
template <class T>
UNITY_DEVICE Four<T> load_streaming(const T* from) {
  return load_vector<T, true>(from);
}

template <class T, bool kStreaming = false>
UNITY_DEVICE void store_vector(T* to, const Four<T>& x) {
#ifdef __CUDA_ARCH__
  Parts<T> parts;
  std::memcpy(&parts, &x, sizeof x);
  auto* at = reinterpret_cast<typename Parts<T>::Part*>(to);
  for (int i = 0; i < Parts<T>::kCount; ++i)
    if (kStreaming)
      __stcs(at + i, parts.part[i]);
    else
      at[i] = parts.part[i];
#else
  std::memcpy(to, &x, sizeof x);
#endif
}
template <class T>
UNITY_DEVICE void store_streaming(T* to, const Four<T>& x) {
  store_vector<T, true>(to, x);
}

// The same of arrays; from.data[i] is the first.
template <class T>
UNITY_DEVICE Four<T> load_vector(const Dense<T>& from, std::int64_t i) {
  return load_vector(from.data + i);
}
template <class T>
UNITY_DEVICE void store_vector(const Dense<T>& to, std::int64_t i, const Four<T>& x) {
  store_vector(to.data + i, x);
}
UNITY_DEVICE void store_vector(const FloatOrBFloat16& to, std::int64_t i, const Four<float>& x) {
  if (!to.half) return store_vector(static_cast<float*>(to.data) + i, x);
  Four<BFloat16> half;
  for (int k = 0; k < 4; ++k) half.v[k] = to_bfloat16(x.v[k]);
  store_vector(static_cast<BFloat16*>(to.data) + i, half);
}

// kCount elements: four, or a single one in v[0].
template <int kCount, class Array>
UNITY_DEVICE Four<typename Array::Value> load_some(const Array& from, std::int64_t i) {
  if constexpr (kCount == 4)
    return load_vector(from, i);
  else
    return {{from.load(i)}};
}
template <int kCount, class Array>
UNITY_DEVICE void store_some(const Array& to, std::int64_t i, const Four<typename Array::Value>& x) {
  if constexpr (kCount == 4)
    store_vector(to, i, x);
  else
    to.store(i, x.v[0]);
}

}  // namespace unity::cuda
