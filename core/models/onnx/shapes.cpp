// Operators that change a tensor's shape, not its elements.
#include <algorithm>
#include <numeric>

#include "core/models/onnx/fold.h"
#include "core/models/onnx/translations.h"

namespace unity {
namespace {

// Reshaping keeps a constant a constant and a parameter a weight.
void reshaped(OnnxContext& c, const Dims& dims) {
  OnnxValue v = c.value(0);
  v.ref = v.ref.node.valid() || !v.parameter ? c.reshape(c.tensor(0), dims) : c.leaf(0, "weight", dims);
  v.tensor = nullptr, v.parameter = false;
  c.result(0, v);
}

}  // namespace

void onnx_Reshape(OnnxContext& c) {
  Dims x = c.dims(0), asked = c.integers(1, "a shape");
  const bool allow_zero = c.integer("allowzero", 0) != 0;
  const OnnxTranslation& t = c.translation();
  // A file with a fixed batch names it here, too.
  if (t.batch_before > 0 && !asked.empty() && asked[0] > 0 && asked[0] % t.batch_before == 0 &&
      std::count(asked.begin(), asked.end(), -1) == 0) {
    Dims moved = asked;
    moved[0] = asked[0] / t.batch_before * t.batch_after;
    Dims filled = moved;
    for (std::size_t d = 0; d < filled.size() && !allow_zero; ++d)
      if (filled[d] == 0 && d < x.size()) filled[d] = x[d];
    if (element_count(filled) == element_count(x)) asked = moved;
  }
  reshaped(c, reshape_dims(x, asked, allow_zero));
}

void onnx_Flatten(OnnxContext& c) {
  Dims x = c.dims(0);
  std::int64_t axis = c.integer("axis", 1);
  if (axis < 0) axis += static_cast<std::int64_t>(x.size());
  if (axis < 0 || axis > static_cast<std::int64_t>(x.size())) c.wrong("found axis {} of {}", axis, x.size());
  reshaped(c, {element_count({x.begin(), x.begin() + axis}), element_count({x.begin() + axis, x.end()})});
}

void onnx_Squeeze(OnnxContext& c) {
  Dims x = c.dims(0), axes = c.list(1, "axes", {}), dims;
  std::vector<bool> drop(x.size());
  for (std::int64_t axis : axes) drop[normal_axis(axis, x.size())] = true;
  for (std::size_t d = 0; d < x.size(); ++d)
    if (axes.empty() ? x[d] != 1 : !drop[d]) dims.push_back(x[d]);
  if (element_count(dims) != element_count(x)) c.wrong("found an axis whose size is not 1");
  reshaped(c, dims);
}

void onnx_Unsqueeze(OnnxContext& c) {
  Dims x = c.dims(0), axes = c.list(1, "axes", {});
  Dims dims(x.size() + axes.size(), 0);
  for (std::int64_t axis : axes) dims[normal_axis(axis, dims.size())] = 1;
  if (static_cast<std::size_t>(std::count(dims.begin(), dims.end(), 1)) != axes.size()) c.wrong("found an axis twice");
  auto next = x.begin();
  for (std::int64_t& d : dims)
    if (d == 0) d = *next++;
  reshaped(c, dims);
}

void onnx_Transpose(OnnxContext& c) {
  Dims order(c.dims(0).size());
  std::iota(order.rbegin(), order.rend(), 0);
  c.result(0, c.transpose(c.tensor(0), c.list("perm", order)));
}

void onnx_Expand(OnnxContext& c) {
  c.result(0, c.expand(c.tensor(0), broadcast_dims(c.dims(0), c.integers(1, "a shape"))));
}

// [a, b] repeated (r, s) times: [1, a, 1, b] broadcast to [r, a, s, b].
void onnx_Tile(OnnxContext& c) {
  Dims x = c.dims(0), times = c.integers(1, "repeats"), apart, wide, result;
  if (times.size() != x.size()) c.wrong("found {} repeats for {} dimensions", times.size(), x.size());
  for (std::size_t d = 0; d < x.size(); ++d) {
    if (times[d] < 1) c.unsupported("{} repeats", times[d]);
    if (times[d] > 1) apart.push_back(1), wide.push_back(times[d]);
    apart.push_back(x[d]), wide.push_back(x[d]), result.push_back(x[d]);
    if (__builtin_mul_overflow(x[d], times[d], &result.back())) c.wrong("found {} repeats of {}", times[d], x[d]);
  }
  if (result == x) return c.result(0, c.value(0));
  c.result(0, c.reshape(c.expand(c.reshape(c.tensor(0), apart), wide), result));
}

void onnx_Shape(OnnxContext& c) {
  Dims x = c.dims(0);
  auto n = static_cast<std::int64_t>(x.size());
  SliceRange r = slice_range(c.integer("start", 0), c.integer("end", n), 1, n);
  Dims part(x.begin() + r.start, x.begin() + r.start + r.count);
  OnnxTensorRef shape = integer_tensor({r.count}, part);
  c.result(0, OnnxValue{{}, shape});
}

void onnx_Size(OnnxContext& c) { c.result(0, OnnxValue{{}, integer_tensor({}, {element_count(c.dims(0))})}); }

}  // namespace unity
