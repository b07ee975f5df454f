// Access to a block sixteen bytes at a time, or element by element where its type, beginning or size forbid that: types
// of one interface, so that a kernel is written once.
//
//   A::kWidth    neighbouring elements of one access
//   read(i)      the elements from i on, a multiple of kWidth, as they are held; nothing waits for them
//   value(r, j)  element j of what was read
//   write(i, v)  kWidth elements from i on
//   store(i, x)  one element
#pragma once

#include <cstring>
#include <initializer_list>

#include "runtime/cuda/elements.h"

namespace unity::cuda {

template <class T>
struct Vectors;

template <>
struct Vectors<float> {
  static constexpr int kWidth = 4;
  using Value = float;
  using Held = Four<float>;
  float* data;

  static Vectors of(const Operand& x) { return {x.as<float>()}; }
  UNITY_DEVICE Held read(std::int64_t i) const { return *reinterpret_cast<const Held*>(data + i); }
  UNITY_DEVICE static float value(const Held& held, int j) { return held.v[j]; }
  UNITY_DEVICE void write(std::int64_t i, const float (&v)[kWidth]) const {
    *reinterpret_cast<Held*>(data + i) = {{v[0], v[1], v[2], v[3]}};
  }
  UNITY_DEVICE void store(std::int64_t i, float x) const { data[i] = x; }
};

// Two neighbours in a word, the first in its lower half.
template <>
struct Vectors<BFloat16> {
  static constexpr int kWidth = 8;
  using Value = float;
  struct alignas(16) Held {
    std::uint32_t pair[4];
  };
  BFloat16* data;

  static Vectors of(const Operand& x) { return {x.as<BFloat16>()}; }
  UNITY_DEVICE Held read(std::int64_t i) const {
#ifdef __CUDA_ARCH__
    return *reinterpret_cast<const Held*>(data + i);
#else
    Held held;
    std::memcpy(&held, data + i, sizeof held);
    return held;
#endif
  }
  UNITY_DEVICE static float value(const Held& held, int j) {
    return float_of_bits(j % 2 == 0 ? held.pair[j / 2] << 16 : held.pair[j / 2] & 0xffff0000u);
  }
  UNITY_DEVICE void write(std::int64_t i, const float (&v)[kWidth]) const {
    Held held;
    for (int j = 0; j < kWidth / 2; ++j) held.pair[j] = to_bfloat16_pair(v[2 * j], v[2 * j + 1]);
#ifdef __CUDA_ARCH__
    *reinterpret_cast<Held*>(data + i) = held;
#else
    std::memcpy(static_cast<void*>(data + i), &held, sizeof held);
#endif
  }
  UNITY_DEVICE void store(std::int64_t i, float x) const { data[i] = to_bfloat16(x); }
};

// Elements one by one, and four at once, like Dense of elements.h.
struct Halves {
  using Value = float;
  BFloat16* data;
  UNITY_DEVICE float load(std::int64_t i) const { return to_float(data[i]); }
  UNITY_DEVICE void store(std::int64_t i, float x) const { data[i] = to_bfloat16(x); }
  UNITY_DEVICE void store_four(std::int64_t i, Four<float> x) const {
    std::uint32_t low = to_bfloat16_pair(x.v[0], x.v[1]), high = to_bfloat16_pair(x.v[2], x.v[3]);
    auto lower = [](std::uint32_t pair) { return BFloat16{static_cast<std::uint16_t>(pair & 0xffffu)}; };
    auto upper = [](std::uint32_t pair) { return BFloat16{static_cast<std::uint16_t>(pair >> 16)}; };
    Dense<BFloat16>{data}.store_four(i, {{lower(low), upper(low), lower(high), upper(high)}});
  }
  bool aligned() const { return aligned_for_four<BFloat16>(data); }
};

template <class Array>
struct Singles {
  static constexpr int kWidth = 1;
  using Value = typename Array::Value;
  using Held = Value;
  Array array;

  static Singles of(const Operand& x) {
    if constexpr (std::is_same_v<Array, FloatOrBFloat16>)
      return {{x.data, x.dtype == DType::bf16}};
    else
      return {{x.as<Value>()}};
  }
  UNITY_DEVICE Held read(std::int64_t i) const { return array.load(i); }
  UNITY_DEVICE static Value value(const Held& held, int) { return held; }
  UNITY_DEVICE void write(std::int64_t i, const Value (&v)[1]) const { array.store(i, v[0]); }
  UNITY_DEVICE void store(std::int64_t i, Value x) const { array.store(i, x); }
};

// Whether blocks of one shape are all held in this type, begin at multiples of 16 bytes and end at one.
inline bool are_vectors(DType type, std::initializer_list<const Operand*> blocks) {
  for (const Operand* x : blocks)
    if (x->dtype != type || reinterpret_cast<std::uintptr_t>(x->data) % 16 != 0 ||
        x->elements() * size_of(type) % 16 != 0)
      return false;
  return true;
}

// f(A, S): A reads and writes these blocks, reals<S> the others of the call, `numbers`, which are few. R: what the call
// holds. No vectors unless `wide`.
template <class R, class F>
void with_access(bool wide, std::initializer_list<const Operand*> blocks, std::span<const Operand> numbers, F f) {
  if constexpr (std::is_same_v<R, Doubles>) {
    f(Singles<Dense<double>>(), Doubles());
  } else {
    for (const Operand& o : numbers) wide = wide && o.dtype == DType::f32;
    if (wide && std::is_same_v<R, Floats> && are_vectors(DType::f32, blocks)) return f(Vectors<float>(), Floats());
    if (wide && std::is_same_v<R, Mixed> && are_vectors(DType::bf16, blocks)) return f(Vectors<BFloat16>(), Floats());
    f(Singles<FloatOrBFloat16>(), Mixed());
  }
}

}  // namespace unity::cuda
