// Convolutions and matrix products.
#include <algorithm>
#include <numeric>

#include "core/models/onnx/fold.h"
#include "core/models/onnx/translations.h"
#include "core/models/onnx/windows.h"

namespace unity {
namespace {

Dims leading(const Dims& dims) { return {dims.begin(), dims.end() - 2}; }

Dims joined(Dims a, std::initializer_list<std::int64_t> b) {
  a.insert(a.end(), b);
  return a;
}

// The last two dimensions exchanged.
ValueRef flip(OnnxContext& c, ValueRef x) {
  Dims order(c.dims_of(x).size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return c.transpose(x, order);
}

// Both of rank 2 at least.
ValueRef product(OnnxContext& c, ValueRef a, ValueRef b) {
  Dims x = c.dims_of(a), y = c.dims_of(b);
  if (y.size() == 2) return c.emit("matmul", {}, {a, b});
  // a b = (b^T a^T)^T, and a^T is the matrix of a product.
  if (x.size() == 2) return flip(c, c.emit("matmul", {{"transpose_w", std::int64_t{1}}}, {flip(c, b), a}));
  Dims lead = broadcast_dims(leading(x), leading(y));
  a = c.expand(a, joined(lead, {x[x.size() - 2], x.back()}));
  b = c.expand(b, joined(lead, {y[y.size() - 2], y.back()}));
  return c.emit("batch_matmul", {}, {a, b});
}

}  // namespace

void onnx_Conv(OnnxContext& c) {
  Dims x = c.dims(0), w = c.dims(1);
  if (w.size() != x.size() || w.size() < 3)
    c.wrong("found input [{}] and kernel [{}]", fmt::join(x, ", "), fmt::join(w, ", "));
  OnnxWindow window = read_window(c, x, {w.begin() + 2, w.end()});
  if (c.integral(0)) c.unsupported("a convolution of integers");
  ValueRef kernel = c.leaf(1, "weight", with_two_spatial(w));
  ValueRef input = c.reshape(c.tensor(0), with_two_spatial(x));
  ValueRef y = c.emit("conv2d",
                      {{"stride", window.stride},
                       {"padding", window.padding},
                       {"dilation", window.dilation},
                       {"groups", c.integer("group", 1)}},
                      {input, kernel});
  if (c.given(2)) y = c.emit("add", {}, {y, c.leaf(2, "weight", {w[0], 1, 1})});
  c.result(0, c.reshape(y, with_spatial_of(c.dims_of(y), x)));
}

void onnx_Gemm(OnnxContext& c) {
  if (c.dims(0).size() != 2 || c.dims(1).size() != 2) c.wrong("found operands that are not matrices");
  ValueRef a = c.tensor(0), b = c.tensor(1);
  if (c.integer("transA", 0)) a = c.transpose(a, {1, 0});
  ValueRef y = c.emit("matmul", {{"transpose_w", std::int64_t{c.integer("transB", 0) != 0}}}, {a, b});
  y = c.scale(c.real("alpha", 1), y);
  if (c.given(2) && c.real("beta", 1) != 0) y = c.emit("add", {}, {y, c.scale(c.real("beta", 1), c.tensor(2))});
  c.result(0, y);
}

// numpy's matmul: vectors count as a row on the left and as a column on the right.
void onnx_MatMul(OnnxContext& c) {
  Dims x = c.dims(0), y = c.dims(1);
  if (x.empty() || y.empty()) c.wrong("found a scalar operand");
  if (c.integral(0) || c.integral(1)) c.unsupported("a product of integers");
  ValueRef a = c.tensor(0), b = c.tensor(1);
  if (x.size() == 1) a = c.reshape(a, {1, x[0]});
  if (y.size() == 1) b = c.reshape(b, {y[0], 1});
  ValueRef r = product(c, a, b);
  Dims dims = c.dims_of(r);
  if (y.size() == 1) dims.pop_back();
  if (x.size() == 1) dims.erase(dims.end() - (y.size() == 1 ? 1 : 2));
  c.result(0, c.reshape(r, dims));
}

}  // namespace unity
