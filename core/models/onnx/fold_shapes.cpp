// The arithmetic of shapes that folding and translation share.
#include <algorithm>

#include "core/base/error.h"
#include "core/models/onnx/fold.h"

namespace unity {

OnnxTensorRef integer_tensor(Dims dims, Integers values) {
  return std::make_shared<const OnnxTensor>(OnnxTensor{std::move(dims), true, {}, std::move(values)});
}

OnnxTensorRef filled_tensor(Dims dims, float value) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 24;
  if (element_count(dims) > kMostElements)
    throw_input_error("needs a constant of shape [{}], expected at most {} elements", fmt::join(dims, ", "),
                      kMostElements);
  auto n = static_cast<std::size_t>(element_count(dims));
  return std::make_shared<const OnnxTensor>(OnnxTensor{std::move(dims), false, std::vector<float>(n, value), {}});
}

Dims broadcast_dims(const Dims& a, const Dims& b) {
  Dims r(std::max(a.size(), b.size()), 1);
  for (std::size_t d = 0; d < r.size(); ++d) {
    std::int64_t x = d < r.size() - a.size() ? 1 : a[d - (r.size() - a.size())];
    std::int64_t y = d < r.size() - b.size() ? 1 : b[d - (r.size() - b.size())];
    if (x != y && x != 1 && y != 1)
      throw_input_error("found shapes [{}] and [{}], expected equal sizes or 1", fmt::join(a, ", "),
                        fmt::join(b, ", "));
    r[d] = x == 1 ? y : x;
  }
  return r;
}

std::size_t normal_axis(std::int64_t axis, std::size_t rank) {
  auto n = static_cast<std::int64_t>(rank);
  if (axis < -n || axis >= n) throw_input_error("found axis {}, expected {} to {}", axis, -n, n - 1);
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

SliceRange slice_range(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t size) {
  if (step == 0) throw_input_error("found step 0, expected another");
  auto clamp = [&](std::int64_t i, std::int64_t low, std::int64_t high) {
    return std::clamp(i < 0 ? std::max(i, -size - 1) + size : i, low, high);
  };
  SliceRange r;
  r.step = step = std::max(step, -INT64_MAX);
  if (size == 0) return r;
  if (step > 0) {
    r.start = clamp(start, 0, size), end = clamp(end, 0, size);
    r.count = end > r.start ? (end - r.start - 1) / step + 1 : 0;
  } else {
    r.start = clamp(start, 0, size - 1), end = clamp(end, -1, size - 1);
    r.count = r.start > end ? (r.start - end - 1) / -step + 1 : 0;
  }
  return r;
}

Dims reshape_dims(const Dims& from, const Dims& asked, bool allow_zero) {
  Dims to = asked;
  std::int64_t elements = element_count(from), known = 1;
  std::ptrdiff_t open = -1;
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (to[d] == 0 && !allow_zero && d < from.size()) to[d] = from[d];
    if (to[d] == -1 && open < 0)
      open = static_cast<std::ptrdiff_t>(d);
    else if (to[d] < 0 || __builtin_mul_overflow(known, to[d], &known))
      throw_input_error("found shape [{}], expected sizes of which at most one is -1", fmt::join(asked, ", "));
  }
  if (open >= 0) to[static_cast<std::size_t>(open)] = known == 0 ? 0 : elements / known;
  if (element_count(to) != elements)
    throw_input_error("found shape [{}] for [{}], expected {} elements", fmt::join(asked, ", "), fmt::join(from, ", "),
                      elements);
  return to;
}

}  // namespace unity
