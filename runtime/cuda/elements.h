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

template <class T>
struct Dense {
  T* data;
  UNITY_DEVICE T load(std::int64_t i) const { return data[i]; }
  UNITY_DEVICE void store(std::int64_t i, T x) const { data[i] = x; }
};

struct FloatOrBFloat16 {
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
