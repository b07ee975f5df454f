// Reductions, and softmax over any dimension.
#include <algorithm>
#include <numeric>

#include "core/models/onnx/fold.h"
#include "core/models/onnx/translations.h"

namespace unity {
namespace {

// Which dimensions a reduction takes away: an attribute in older opsets, an operand in newer ones; none means all.
Dims reduced(const OnnxContext& c) {
  Dims axes = c.list(1, "axes", {}), dims;
  std::size_t rank = c.dims(0).size();
  if (axes.empty() && c.integer("noop_with_empty_axes", 0)) return {};
  std::vector<bool> taken(rank, axes.empty());
  for (std::int64_t axis : axes) taken[normal_axis(axis, rank)] = true;
  for (std::size_t d = 0; d < rank; ++d)
    if (taken[d]) dims.push_back(static_cast<std::int64_t>(d));
  return dims;
}

Dims kept(Dims dims, const Dims& over) {
  for (std::int64_t d : over) dims[static_cast<std::size_t>(d)] = 1;
  return dims;
}

ValueRef reduce(OnnxContext& c, const std::string& op, ValueRef x) {
  Dims over = reduced(c), dims = c.dims_of(x);
  if (over.empty()) return x;
  if (c.integral(0)) c.unsupported("a reduction of integers that are computed from data");
  ValueRef r = c.emit(op, {{"dims", over}}, {x});
  return c.integer("keepdims", 1) ? c.reshape(r, kept(dims, over)) : r;
}

// Softmax over the last dimension, or its logarithm. That is x - m - log(sum(exp(x - m))) with the row's maximum m: the
// logarithm of a softmax would be -infinity where that is too small for a float.
ValueRef softmax_of_rows(OnnxContext& c, ValueRef x, bool logarithm) {
  if (!logarithm) return c.emit("softmax", {}, {x});
  Dims one_each = c.dims_of(x), last = {static_cast<std::int64_t>(one_each.size()) - 1};
  one_each.back() = 1;
  ValueRef most = c.emit("reduce_max", {{"dims", last}, {"detached", std::int64_t{1}}}, {x});
  ValueRef below = c.emit("sub", {}, {x, c.reshape(most, one_each)});
  ValueRef sum = c.emit("reduce_sum", {{"dims", last}}, {c.emit("exp", {}, {below})});
  return c.emit("sub", {}, {below, c.reshape(c.emit("log", {}, {sum}), one_each)});
}

ValueRef softmax(OnnxContext& c, bool logarithm) {
  Dims x = c.dims(0);
  std::size_t axis = normal_axis(c.integer("axis", c.opset() < 13 ? 1 : -1), x.size());
  ValueRef v = c.tensor(0);
  if (axis + 1 == x.size()) return softmax_of_rows(c, v, logarithm);
  if (c.opset() < 13) {  // over all dimensions from `axis` on
    Dims rows(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(axis));
    rows.push_back(
        std::accumulate(x.begin() + static_cast<std::ptrdiff_t>(axis), x.end(), std::int64_t{1}, std::multiplies<>()));
    return c.reshape(softmax_of_rows(c, c.reshape(v, rows), logarithm), x);
  }
  Dims order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[axis], order.back());
  return c.transpose(softmax_of_rows(c, c.transpose(v, order), logarithm), order);
}

}  // namespace

void onnx_ReduceMean(OnnxContext& c) { c.result(0, reduce(c, "reduce_mean", c.tensor(0))); }
void onnx_ReduceSum(OnnxContext& c) { c.result(0, reduce(c, "reduce_sum", c.tensor(0))); }
void onnx_ReduceMax(OnnxContext& c) { c.result(0, reduce(c, "reduce_max", c.tensor(0))); }
void onnx_ReduceMin(OnnxContext& c) { c.result(0, c.scale(-1, reduce(c, "reduce_max", c.scale(-1, c.tensor(0))))); }

void onnx_ArgMax(OnnxContext& c) {
  if (c.integer("select_last_index", 0)) c.unsupported("the last of equal maxima");
  Dims x = c.dims(0);
  std::size_t axis = normal_axis(c.integer("axis", 0), x.size());
  ValueRef r = c.emit("argmax", {{"dim", static_cast<std::int64_t>(axis)}}, {c.tensor(0)});
  c.result(0, c.integer("keepdims", 1) ? c.reshape(r, kept(x, {static_cast<std::int64_t>(axis)})) : r);
}

void onnx_Softmax(OnnxContext& c) { c.result(0, softmax(c, false)); }
void onnx_LogSoftmax(OnnxContext& c) { c.result(0, softmax(c, true)); }

}  // namespace unity
