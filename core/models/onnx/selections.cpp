// Operators that take parts of tensors or join them.
#include <algorithm>
#include <numeric>

#include "core/models/onnx/fold.h"
#include "core/models/onnx/translations.h"

namespace unity {
namespace {

ValueRef slice(OnnxContext& c, ValueRef x, const Dims& starts, const Dims& sizes) {
  return sizes == c.dims_of(x) ? x : c.emit("slice", {{"starts", starts}, {"sizes", sizes}}, {x});
}

// Elements i[0], i[1], .. of a dimension; a slice where they follow each other.
ValueRef take(OnnxContext& c, ValueRef x, std::size_t dim, const Integers& indices) {
  bool run = true;
  for (std::size_t k = 1; k < indices.size(); ++k) run &= indices[k] == indices[k - 1] + 1;
  if (run) {
    Dims sizes = c.dims_of(x), starts(sizes.size(), 0);
    starts[dim] = indices[0], sizes[dim] = static_cast<std::int64_t>(indices.size());
    return slice(c, x, starts, sizes);
  }
  OnnxTensor list{{static_cast<std::int64_t>(indices.size())}, false, {indices.begin(), indices.end()}, {}};
  ValueRef positions = c.state(std::make_shared<const OnnxTensor>(std::move(list)));
  positions = c.emit("cast", {{"dtype", std::string("i32")}}, {positions});
  return c.emit("gather", {{"dim", static_cast<std::int64_t>(dim)}}, {x, positions});
}

}  // namespace

void onnx_Concat(OnnxContext& c) {
  std::vector<ValueRef> parts;
  for (std::size_t i = 0; i < c.operands(); ++i) {
    Dims dims = c.dims(i);
    if (std::find(dims.begin(), dims.end(), 0) == dims.end()) parts.push_back(c.tensor(i));
  }
  if (parts.empty()) c.unsupported("an empty tensor");
  auto dim = static_cast<std::int64_t>(normal_axis(c.integer("axis", 0), c.dims_of(parts[0]).size()));
  c.result(0, parts.size() == 1 ? parts[0] : c.emit("concat", {{"dim", dim}}, parts));
}

void onnx_Split(OnnxContext& c) {
  Dims x = c.dims(0);
  std::size_t dim = normal_axis(c.integer("axis", 0), x.size());
  auto parts = static_cast<std::int64_t>(c.node().outputs.size());
  Dims sizes = c.list(1, "split", {});
  if (sizes.empty()) {
    std::int64_t each = (x[dim] + parts - 1) / parts;
    sizes.assign(static_cast<std::size_t>(parts), each);
    sizes.back() = x[dim] - each * (parts - 1);
  }
  if (static_cast<std::int64_t>(sizes.size()) != parts) c.wrong("found {} sizes for {} results", sizes.size(), parts);
  if (parts == 1) return c.result(0, c.tensor(0));
  c.results(c.emit_all("split", {{"dim", static_cast<std::int64_t>(dim)}, {"sizes", sizes}}, {c.tensor(0)}));
}

void onnx_Slice(OnnxContext& c) {
  Dims x = c.dims(0), starts = c.list(1, "starts", {}), ends = c.list(2, "ends", {}), axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = c.list(3, "axes", axes);
  Dims steps = c.given(4) ? c.integers(4, "steps") : Dims(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    c.wrong("found starts, ends, axes and steps of different lengths");
  ValueRef v = c.tensor(0);
  Dims first(x.size(), 0), sizes = x;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    std::size_t d = normal_axis(axes[i], x.size());
    SliceRange r = slice_range(starts[i], ends[i], steps[i], x[d]);
    if (r.count == 0) c.unsupported("an empty tensor");
    if (r.step == 1) {
      first[d] = r.start, sizes[d] = r.count;
      continue;
    }
    constexpr std::int64_t kMostIndices = std::int64_t{1} << 24;
    if (r.count > kMostIndices)
      c.unsupported("{} elements {} apart, expected at most {}", r.count, r.step, kMostIndices);
    Integers indices;
    for (std::int64_t k = 0; k < r.count; ++k) indices.push_back(r.start + k * r.step);
    v = take(c, v, d, indices);
    sizes[d] = r.count;
  }
  c.result(0, slice(c, v, first, sizes));
}

void onnx_Pad(OnnxContext& c) {
  if (c.text("mode", "constant") != "constant") c.unsupported("mode {}", c.text("mode", ""));
  Dims x = c.dims(0), pads = c.list(1, "pads", {}), axes(x.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (c.given(3)) axes = c.integers(3, "axes");
  double value = c.real("value", 0);
  if (c.given(2)) {
    auto constant = c.scalar(2);
    if (!constant) c.unsupported("a value that is computed from data");
    value = *constant;
  }
  if (pads.size() != 2 * axes.size()) c.wrong("found {} pads for {} dimensions", pads.size(), axes.size());
  constexpr std::int64_t kLargest = std::int64_t{1} << 48;
  for (std::int64_t pad : pads)
    if (pad > kLargest || pad < -kLargest) c.wrong("found a pad of {}, expected at most {}", pad, kLargest);
  Dims before(x.size(), 0), after(x.size(), 0), starts(x.size(), 0), sizes = x;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::size_t d = normal_axis(axes[i], x.size());
    std::int64_t front = pads[i], back = pads[axes.size() + i];
    before[d] = std::max<std::int64_t>(front, 0), after[d] = std::max<std::int64_t>(back, 0);
    starts[d] = std::max<std::int64_t>(-front, 0);
    sizes[d] = x[d] - starts[d] - std::max<std::int64_t>(-back, 0);
    if (sizes[d] < 1) c.unsupported("an empty tensor");
  }
  ValueRef v = slice(c, c.tensor(0), starts, sizes);
  bool any = false;
  for (std::size_t d = 0; d < x.size(); ++d) any |= before[d] + after[d] > 0;
  c.result(0, any ? c.emit("pad", {{"before", before}, {"after", after}, {"value", value}}, {v}) : v);
}

// numpy's take. Rows of a table by computed indices are an embedding.
void onnx_Gather(OnnxContext& c) {
  Dims x = c.dims(0);
  std::size_t dim = normal_axis(c.integer("axis", 0), x.size());
  if (OnnxTensorRef constant = c.constant(1)) {
    Integers indices = constant->integers;
    for (std::int64_t& i : indices) {
      i += i < 0 ? x[dim] : 0;
      if (i < 0 || i >= x[dim]) c.wrong("found index {}, expected below {}", i, x[dim]);
    }
    if (indices.empty()) c.unsupported("an empty tensor");
    Dims dims(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(dim));
    dims.insert(dims.end(), constant->dims.begin(), constant->dims.end());
    dims.insert(dims.end(), x.begin() + static_cast<std::ptrdiff_t>(dim) + 1, x.end());
    return c.result(0, c.reshape(take(c, c.tensor(0), dim, indices), dims));
  }
  if (!c.integral(1)) c.wrong("found real numbers for indices");
  if (c.integral(0)) c.unsupported("taking from integers by indices that are computed from data");
  if (dim == 0 && x.size() == 2) return c.result(0, c.emit("embedding", {}, {c.tensor(1), c.tensor(0)}));
  c.result(0, c.emit("gather", {{"dim", static_cast<std::int64_t>(dim)}}, {c.tensor(0), c.tensor(1)}));
}

// numpy's take_along_axis; here one index for each row of the last dimension: how exporters write the loss of labels.
void onnx_GatherElements(OnnxContext& c) {
  Dims x = c.dims(0), rows = x;
  std::size_t dim = normal_axis(c.integer("axis", 0), x.size());
  rows.pop_back();
  Dims one_each = rows;
  one_each.push_back(1);
  if (dim + 1 != x.size() || c.dims(1) != one_each)
    c.unsupported("other indices than one for each row of the last dimension");
  if (!c.integral(1)) c.wrong("found real numbers for indices");
  if (c.constant(1) || c.integral(0)) c.unsupported("constant indices, or elements that are integers");
  c.result(0, c.reshape(c.emit("pick", {}, {c.tensor(0), c.reshape(c.tensor(1), rows)}), one_each));
}

}  // namespace unity
