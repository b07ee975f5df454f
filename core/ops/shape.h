// Logical tensors: sizes and element types, and boxes (regions) of them.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/integers.h"

namespace unity {

using Dims = Integers;  // by dimension

// f32, f64: real numbers. i32: indices and labels. i64 and mod (integers modulo a prime) exist for the reference
// evaluator only, where equality is exact; bf16 only in how a backend holds reals.
enum class DType : std::uint8_t { f32, f64, i32, i64, mod, bf16 };

constexpr std::int64_t size_of(DType type) {
  return type == DType::bf16 ? 2 : type == DType::f32 || type == DType::i32 ? 4 : 8;
}
std::string_view to_string(DType type);
Result<DType> parse_dtype(std::string_view text);

inline std::int64_t element_count(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

struct Shape {
  Dims dims;  // rank 0 is a scalar
  DType dtype = DType::f32;
  bool operator==(const Shape&) const = default;
  std::int64_t elements() const { return element_count(dims); }
  std::int64_t bytes() const { return elements() * size_of(dtype); }
};
std::string to_string(const Shape& shape);  // "f32[64, 784]"

// An axis-aligned part of a tensor: per dimension, the half-open range [offset, offset + extent).
struct Box {
  Dims offset;
  Dims extent;
  bool operator==(const Box&) const = default;
  std::size_t rank() const { return extent.size(); }
  std::int64_t elements() const { return element_count(extent); }
  bool empty() const { return elements() == 0; }
  bool contains(const Box& other) const;
};
Box whole_box(const Dims& dims);
Box intersect(const Box& a, const Box& b);  // extent 0 where they do not meet
std::string to_string(const Box& box);      // "[0:32, 0:784]"

}  // namespace unity
