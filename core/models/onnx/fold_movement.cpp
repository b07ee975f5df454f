// Evaluators of operators that move, repeat or select elements.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/models/onnx/fold_array.h"

namespace unity::folding {

Array gather(const Call& c) {
  Array x = c.in(0), indices = c.in(1);
  std::size_t axis = normal_axis(c.attribute<std::int64_t>("axis", 0), x.dims.size());
  Dims dims(x.dims.begin(), x.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
  dims.insert(dims.end(), x.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.dims.end());
  return gather_from(x, dims, [&](const Dims& index) {
    auto first = index.begin() + static_cast<std::ptrdiff_t>(axis);
    auto last = first + static_cast<std::ptrdiff_t>(indices.dims.size());
    std::int64_t i = whole(indices.values[static_cast<std::size_t>(position(indices.dims, Dims(first, last)))]);
    i += i < 0 ? x.dims[axis] : 0;
    if (i < 0 || i >= x.dims[axis]) throw_input_error("found index {}, expected below {}", i, x.dims[axis]);
    Dims from(index.begin(), first);
    from.push_back(i);
    from.insert(from.end(), last, index.end());
    return position(x.dims, from);
  });
}

Array concat(const Call& c) {
  Array r = c.in(0);
  std::size_t axis = normal_axis(c.attribute<std::int64_t>("axis", 0), r.dims.size());
  for (std::size_t k = 1; k < c.tensors.size(); ++k) {
    Array y = c.in(k);
    Dims dims = r.dims;
    if (y.dims.size() != dims.size()) throw_input_error("found operands of different ranks");
    dims[axis] = y.dims[axis];
    if (y.dims != dims)
      throw_input_error("found shapes [{}] and [{}], expected equal sizes but for axis {}", fmt::join(r.dims, ", "),
                        fmt::join(y.dims, ", "), axis);
    dims[axis] += r.dims[axis];
    std::int64_t before = r.dims[axis];
    Array joined(dims, r.integral && y.integral);
    for_each_index(dims, [&](const Dims& index, std::int64_t i) {
      Dims from = index;
      bool first = index[axis] < before;
      if (!first) from[axis] -= before;
      const Array& source = first ? r : y;
      joined.values[static_cast<std::size_t>(i)] = source.values[static_cast<std::size_t>(position(source.dims, from))];
    });
    r = std::move(joined);
  }
  return r;
}

Array unsqueeze(const Call& c) {
  Array x = c.in(0);
  Dims axes = c.integers(1, "axes", {});
  std::size_t rank = x.dims.size() + axes.size();
  Dims dims(rank, 0);
  for (std::int64_t axis : axes) dims[normal_axis(axis, rank)] = 1;
  auto next = x.dims.begin();
  for (std::int64_t& d : dims)
    if (d == 0) d = next == x.dims.end() ? throw InputError("found an axis twice") : *next++;
  return with_dims(std::move(x), dims);
}

Array squeeze(const Call& c) {
  Array x = c.in(0);
  std::vector<bool> drop(x.dims.size());
  Dims axes = c.integers(1, "axes", {}), dims;
  for (std::int64_t axis : axes) drop[normal_axis(axis, drop.size())] = true;
  for (std::size_t d = 0; d < drop.size(); ++d)
    if (axes.empty() ? x.dims[d] != 1 : !drop[d]) dims.push_back(x.dims[d]);
  if (element_count(dims) != element_count(x.dims)) throw_input_error("found an axis whose size is not 1");
  return with_dims(std::move(x), dims);
}

Array reshape(const Call& c) {
  Array x = c.in(0);
  Dims dims = reshape_dims(x.dims, c.integers(1, "shape", {}), c.attribute<std::int64_t>("allowzero", 0) != 0);
  return with_dims(std::move(x), dims);
}

Array slice(const Call& c) {
  Array x = c.in(0);
  Dims starts = c.integers(1, "starts", {}), ends = c.integers(2, "ends", {}), axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = c.integers(3, "axes", axes);
  Dims steps = c.integers(4, "steps", Dims(starts.size(), 1));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    throw_input_error("found starts, ends, axes and steps of different lengths");
  std::vector<SliceRange> ranges;
  for (std::int64_t d : x.dims) ranges.push_back({0, d, 1});
  for (std::size_t i = 0; i < starts.size(); ++i) {
    std::size_t axis = normal_axis(axes[i], x.dims.size());
    ranges[axis] = slice_range(starts[i], ends[i], steps[i], x.dims[axis]);
  }
  Dims dims;
  for (const SliceRange& r : ranges) dims.push_back(r.count);
  return gather_from(x, dims, [&](Dims index) {
    for (std::size_t d = 0; d < index.size(); ++d) index[d] = ranges[d].start + index[d] * ranges[d].step;
    return position(x.dims, index);
  });
}

Array range(const Call& c) {
  double start = c.first(0), limit = c.first(1), step = c.first(2);
  if (step == 0) throw_input_error("found step 0, expected another");
  double n = std::max(0.0, std::ceil((limit - start) / step));
  if (!(n <= static_cast<double>(kMostElements))) throw_input_error("found a range of {} elements", n);
  Array r({static_cast<std::int64_t>(n)}, c.in(0).integral);
  for (std::size_t i = 0; i < r.values.size(); ++i) r.values[i] = start + static_cast<double>(i) * step;
  return r;
}

Array expand(const Call& c) {
  Array x = c.in(0);
  return broadcast(x, broadcast_dims(x.dims, c.integers(1, "", {})));
}

Array transpose(const Call& c) {
  Array x = c.in(0);
  Dims order(x.dims.size());
  std::iota(order.rbegin(), order.rend(), 0);
  order = c.attribute<Dims>("perm", order);
  Dims dims, sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t d = 0; d < sorted.size(); ++d)
    if (sorted.size() != x.dims.size() || sorted[d] != static_cast<std::int64_t>(d))
      throw_input_error("found perm [{}], expected the {} dimensions in another order", fmt::join(order, ", "),
                        x.dims.size());
  for (std::int64_t d : order) dims.push_back(x.dims[static_cast<std::size_t>(d)]);
  return gather_from(x, dims, [&](const Dims& index) {
    Dims from(index.size());
    for (std::size_t d = 0; d < index.size(); ++d) from[static_cast<std::size_t>(order[d])] = index[d];
    return position(x.dims, from);
  });
}

// The upper or lower triangle of the last two dimensions; the rest is 0.
Array triangle(const Call& c) {
  Array x = c.in(0);
  std::int64_t k = c.has(1) ? whole(c.first(1)) : 0;
  bool upper = c.attribute<std::int64_t>("upper", 1) != 0;
  if (x.dims.size() < 2) throw_input_error("found {} dimensions, expected at least 2", x.dims.size());
  for_each_index(x.dims, [&](const Dims& index, std::int64_t i) {
    std::int64_t above = index.back() - index[index.size() - 2];
    if (upper ? above < k : above > k) x.values[static_cast<std::size_t>(i)] = 0;
  });
  return x;
}

}  // namespace unity::folding
