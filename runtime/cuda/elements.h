// Element types on the device. A call's reals are all f32 (Floats), all f64 (Doubles), or each f32 or bf16 (Mixed: bf16
// mode, whose weights, sums and statistics stay f32); i32 blocks are Integers. Kernels are templates over one of these:
// R::Value is what arithmetic is done in, R::Array reads and writes it.
#pragma once

#include <cstdint>

#include "core/ops/operator.h"
#include "runtime/cuda/launch.h"

namespace unity::cuda {

// The upper half of a float.
struct BFloat16 {
  std::uint16_t bits;
};
UNITY_DEVICE float to_float(BFloat16 x) {
  union {
    std::uint32_t bits;
    float value;
  } u;
  u.bits = static_cast<std::uint32_t>(x.bits) << 16;
  return u.value;
}
// Rounds to nearest, ties to even; NaN stays NaN.
UNITY_DEVICE BFloat16 to_bfloat16(float x) {
  union {
    float value;
    std::uint32_t bits;
  } u;
  u.value = x;
  if (x != x) return {0x7fc0};
  return {static_cast<std::uint16_t>((u.bits + 0x7fffu + ((u.bits >> 16) & 1u)) >> 16)};
}

// As arithmetic is done with it.
template <class T>
UNITY_DEVICE T to_real(T x) {
  return x;
}
UNITY_DEVICE float to_real(BFloat16 x) { return to_float(x); }

// Four neighbouring elements, read and written at once where they begin at a multiple of their size.
template <class T>
struct alignas(sizeof(T) * 4 > 16 ? 16 : sizeof(T) * 4) Four {
  T v[4];
};
template <class T>
bool aligned_for_four(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % alignof(Four<T>) == 0;
}

template <class T>
struct Dense {
  using Value = T;
  T* data;
  UNITY_DEVICE T load(std::int64_t i) const { return data[i]; }
  UNITY_DEVICE void store(std::int64_t i, T x) const { data[i] = x; }
  UNITY_DEVICE Four<T> load_four(std::int64_t i) const { return *reinterpret_cast<const Four<T>*>(data + i); }
  UNITY_DEVICE void store_four(std::int64_t i, Four<T> x) const { *reinterpret_cast<Four<T>*>(data + i) = x; }
  Dense from(std::int64_t i) const { return {data + i}; }  // the array that begins at element i
  bool aligned() const { return aligned_for_four<T>(data); }
};

struct FloatOrBFloat16 {
  using Value = float;
  void* data;
  bool half;
  UNITY_DEVICE float load(std::int64_t i) const {
    return half ? to_float(static_cast<const BFloat16*>(data)[i]) : static_cast<const float*>(data)[i];
  }
  UNITY_DEVICE void store(std::int64_t i, float x) const {
    if (half)
      static_cast<BFloat16*>(data)[i] = to_bfloat16(x);
    else
      static_cast<float*>(data)[i] = x;
  }
  UNITY_DEVICE Four<float> load_four(std::int64_t i) const {
    if (!half) return Dense<float>{static_cast<float*>(data)}.load_four(i);
    Four<BFloat16> x = Dense<BFloat16>{static_cast<BFloat16*>(data)}.load_four(i);
    return {{to_float(x.v[0]), to_float(x.v[1]), to_float(x.v[2]), to_float(x.v[3])}};
  }
  UNITY_DEVICE void store_four(std::int64_t i, Four<float> x) const {
    if (!half) return Dense<float>{static_cast<float*>(data)}.store_four(i, x);
    Dense<BFloat16>{static_cast<BFloat16*>(data)}.store_four(
        i, {{to_bfloat16(x.v[0]), to_bfloat16(x.v[1]), to_bfloat16(x.v[2]), to_bfloat16(x.v[3])}});
  }
  FloatOrBFloat16 from(std::int64_t i) const { return {static_cast<char*>(data) + i * (half ? 2 : 4), half}; }
  bool aligned() const { return half ? aligned_for_four<BFloat16>(data) : aligned_for_four<float>(data); }
};

struct Floats {
  using Value = float;
  using Array = Dense<float>;
};
struct Doubles {
  using Value = double;
  using Array = Dense<double>;
};
struct Mixed {
  using Value = float;
  using Array = FloatOrBFloat16;
};
struct Integers {
  using Value = std::int32_t;
  using Array = Dense<std::int32_t>;
};

template <class R>
typename R::Array reals(const Operand& o) {
  if constexpr (std::is_same_v<R, Mixed>)
    return {o.data, o.dtype == DType::bf16};
  else
    return {o.as<typename R::Value>()};
}
inline Dense<std::int32_t> indices(const Operand& o) { return {o.as<std::int32_t>()}; }

}  // namespace unity::cuda
