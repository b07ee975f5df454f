// Element types on the device. A call's reals are all f32 (Floats), all f64 (Doubles), or each f32 or bf16 (Mixed: bf16
// mode, whose weights, sums and statistics stay f32); i32 blocks are Integers. Kernels are templates over one of these:
// R::Value is what arithmetic is done in, R::Array reads and writes it.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

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
#ifdef __CUDA_ARCH__
  BFloat16 y;  // one instruction
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#else
  union {
    float value;
    std::uint32_t bits;
  } u;
  u.value = x;
  if (x != x) return {0x7fc0};
  return {static_cast<std::uint16_t>((u.bits + 0x7fffu + ((u.bits >> 16) & 1u)) >> 16)};
#endif
}

// As arithmetic is done with it.
template <class T>
UNITY_DEVICE T to_real(T x) {
  return x;
}
UNITY_DEVICE float to_real(BFloat16 x) { return to_float(x); }

// Two numbers as neighbours in bf16, the first in the lower half; rounded as to_bfloat16 does, but for the bits of a
// NaN.
UNITY_DEVICE std::uint32_t to_bfloat16_pair(float first, float second) {
#ifdef __CUDA_ARCH__
  std::uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
  return bits;
#else
  return to_bfloat16(first).bits | static_cast<std::uint32_t>(to_bfloat16(second).bits) << 16;
#endif
}
UNITY_DEVICE float float_of_bits(std::uint32_t bits) {
  union {
    std::uint32_t bits;
    float value;
  } u;
  u.bits = bits;
  return u.value;
}

// N neighbouring elements, read and written at once where they begin at a multiple of their size (16 bytes at most).
template <class T, int N>
struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Several {
  T v[N];
};
template <class T>
using Four = Several<T, 4>;
template <class T, int N>
bool aligned_for(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % alignof(Several<T, N>) == 0;
}
template <class T>
bool aligned_for_four(const void* data) {
  return aligned_for<T, 4>(data);
}

// A W at memory that holds something else, aligned for a W.
template <class W>
UNITY_DEVICE W read_as(const void* at) {
#ifdef __CUDA_ARCH__
  return *static_cast<const W*>(at);
#else
  W w;
  std::memcpy(&w, at, sizeof w);
  return w;
#endif
}
template <class W>
UNITY_DEVICE void write_as(void* at, const W& w) {
#ifdef __CUDA_ARCH__
  *static_cast<W*>(at) = w;
#else
  std::memcpy(at, &w, sizeof w);
#endif
}

// Arrays read N neighbours (1, 2, 4 or 8) in two steps, so that a thread can have several reads under way before it
// looks at the first: load_packed<N>(i) as they lie in memory (repeat_packed<N>(i): N times element i), then unpack().
// N neighbours begin at a multiple of N, in an array that is aligned_for_several<N>().
template <class T>
struct Dense {
  using Value = T;
  T* data;
  UNITY_DEVICE T load(std::int64_t i) const { return data[i]; }
  UNITY_DEVICE void store(std::int64_t i, T x) const { data[i] = x; }
  UNITY_DEVICE Four<T> load_four(std::int64_t i) const { return *reinterpret_cast<const Four<T>*>(data + i); }
  UNITY_DEVICE void store_four(std::int64_t i, Four<T> x) const { *reinterpret_cast<Four<T>*>(data + i) = x; }
  template <int N>
  UNITY_DEVICE Several<T, N> load_packed(std::int64_t i) const {
    return *reinterpret_cast<const Several<T, N>*>(data + i);
  }
  template <int N>
  UNITY_DEVICE Several<T, N> repeat_packed(std::int64_t i) const {
    T one = data[i];
    Several<T, N> x;
    for (int k = 0; k < N; ++k) x.v[k] = one;
    return x;
  }
  template <int N>
  UNITY_DEVICE Several<T, N> unpack(const Several<T, N>& x) const {
    return x;
  }
  template <int N>
  UNITY_DEVICE void store_several(std::int64_t i, const Several<T, N>& x) const {
    *reinterpret_cast<Several<T, N>*>(data + i) = x;
  }
  template <int N>
  bool aligned_for_several() const {
    return aligned_for<T, N>(data);
  }
  static constexpr std::int64_t element_bytes() { return sizeof(T); }
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
  UNITY_DEVICE Four<float> load_four(std::int64_t i) const { return unpack<4>(load_packed<4>(i)); }
  UNITY_DEVICE void store_four(std::int64_t i, Four<float> x) const { store_several(i, x); }

  // Elements in bf16 fill `low`, those in f32 both; a single one its upper half, or all of it.
  template <int N>
  struct Halves {
    Several<std::uint32_t, N / 2> low, high;
  };
  template <int N>
  using Packed = std::conditional_t<N == 1, Several<std::uint32_t, 1>, Halves<N == 1 ? 2 : N>>;
  template <int N>
  UNITY_DEVICE Packed<N> load_packed(std::int64_t i) const {
    const char* at = static_cast<const char*>(data) + i * (half ? 2 : 4);
    if constexpr (N == 1) {
      if (half) return {{read_as<std::uint16_t>(at)}};
      return {{read_as<std::uint32_t>(at)}};
    } else {
      using Part = Several<std::uint32_t, N / 2>;
      Packed<N> x{read_as<Part>(at), {}};
      if (!half) x.high = read_as<Part>(at + sizeof(Part));
      return x;
    }
  }
  template <int N>
  UNITY_DEVICE Packed<N> repeat_packed(std::int64_t i) const {
    std::uint32_t one = load_packed<1>(i).v[0] * (half ? 0x10001u : 1u);
    Packed<N> x;
    for (int k = 0; k < N / 2; ++k) x.low.v[k] = x.high.v[k] = one;
    return x;
  }
  template <int N>
  UNITY_DEVICE Several<float, N> unpack(const Packed<N>& x) const {
    if constexpr (N == 1) {
      return {{float_of_bits(half ? x.v[0] << 16 : x.v[0])}};
    } else {
      Several<float, N> result;
      for (int k = 0; k < N / 2; ++k)
        if (half) {
          result.v[2 * k] = float_of_bits(x.low.v[k] << 16);
          result.v[2 * k + 1] = float_of_bits(x.low.v[k] & 0xffff0000u);
        } else {
          result.v[k] = float_of_bits(x.low.v[k]);
          result.v[N / 2 + k] = float_of_bits(x.high.v[k]);
        }
      return result;
    }
  }
  template <int N>
  UNITY_DEVICE void store_several(std::int64_t i, const Several<float, N>& x) const {
    if constexpr (N == 1) return store(i, x.v[0]);
    if (!half) return write_as(static_cast<float*>(data) + i, x);
    Several<std::uint32_t, (N + 1) / 2> bits;
    for (int k = 0; k < N / 2; ++k) bits.v[k] = to_bfloat16_pair(x.v[2 * k], x.v[2 * k + 1]);
    write_as(static_cast<BFloat16*>(data) + i, bits);
  }
  template <int N>
  bool aligned_for_several() const {
    return half ? aligned_for<BFloat16, N>(data) : aligned_for<float, N>(data);
  }
  std::int64_t element_bytes() const { return half ? 2 : 4; }
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
