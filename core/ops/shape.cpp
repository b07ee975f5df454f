#include "core/ops/shape.h"

#include <algorithm>
#include <array>

namespace unity {
namespace {
constexpr std::array<std::string_view, 6> kNames = {"f32", "f64", "i32", "i64", "mod", "bf16"};
}

std::string_view to_string(DType type) { return kNames[static_cast<std::size_t>(type)]; }

Result<DType> parse_dtype(std::string_view text) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == text) return static_cast<DType>(i);
  return fail("element type: found '{}', expected f32, f64 or i32", text);
}

std::string to_string(const Shape& shape) {
  return fmt::format("{}[{}]", to_string(shape.dtype), fmt::join(shape.dims, ", "));
}

bool Box::contains(const Box& other) const {
  for (std::size_t i = 0; i < rank(); ++i)
    if (other.offset[i] < offset[i] || other.offset[i] + other.extent[i] > offset[i] + extent[i]) return false;
  return true;
}

Box whole_box(const Dims& dims) { return {Dims(dims.size(), 0), dims}; }

Box intersect(const Box& a, const Box& b) {
  Box r{Dims(a.rank()), Dims(a.rank())};
  for (std::size_t i = 0; i < a.rank(); ++i) {
    r.offset[i] = std::max(a.offset[i], b.offset[i]);
    r.extent[i] =
        std::max<std::int64_t>(0, std::min(a.offset[i] + a.extent[i], b.offset[i] + b.extent[i]) - r.offset[i]);
  }
  return r;
}

std::string to_string(const Box& box) {
  std::string text = "[";
  for (std::size_t i = 0; i < box.rank(); ++i)
    text += fmt::format("{}{}:{}", i ? ", " : "", box.offset[i], box.offset[i] + box.extent[i]);
  return text + "]";
}

}  // namespace unity
