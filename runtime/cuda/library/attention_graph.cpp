#include "runtime/cuda/library/attention_graph.h"

namespace unity::cuda {
namespace {

// Adds operations one by one. Tensors between them get ids from 100 on.
class Builder {
 public:
  explicit Builder(const AttentionShape& shape) : shape_(shape) {}

  // Operand of the call; transposed: the same memory, its last two dimensions exchanged.
  Descriptor matrix(std::int64_t id, std::int64_t rows, std::int64_t columns, bool transposed = false) const {
    GraphTensor t = tensor(id, rows, columns, CUDNN_DATA_BFLOAT16);
    if (transposed) std::swap(t.sizes[2], t.sizes[3]), std::swap(t.strides[2], t.strides[3]);
    return describe(t);
  }
  // Transposed: laid out as [columns, rows].
  Descriptor inner(std::int64_t rows, std::int64_t columns, cudnnDataType_t type = CUDNN_DATA_FLOAT,
                   bool transposed = false) {
    GraphTensor t = tensor(next_++, rows, columns, type);
    t.inner = true;
    if (transposed) t.strides[2] = 1, t.strides[3] = rows;
    return describe(t);
  }
  // A number for each row, held in memory.
  Descriptor of_rows(std::int64_t id) const { return describe(tensor(id, shape_.s, 1, CUDNN_DATA_FLOAT)); }
  Descriptor scores(cudnnDataType_t type = CUDNN_DATA_FLOAT) { return inner(shape_.s, shape_.t, type); }
  static Descriptor number(std::int64_t id) {
    GraphTensor t{id, {1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT};
    t.by_value = true;
    return describe(t);
  }

  void product(const Descriptor& a, const Descriptor& b, const Descriptor& y) {
    Descriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR), op(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT).finalize();
    op.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a)
        .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b)
        .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, y)
        .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    operations_.push_back(op.finalize());
  }
  // The last two dimensions of x exchanged.
  Descriptor transpose(const Descriptor& x, const Descriptor& y) {
    Descriptor op(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x).set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    operations_.push_back(op.finalize());
    return y;
  }
  // Over the columns of x.
  Descriptor reduce(cudnnReduceTensorOp_t with, const Descriptor& x) {
    Descriptor y = inner(shape_.s, 1);
    Descriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR), op(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    how.set(CUDNN_ATTR_REDUCTION_OPERATOR, with).set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT).finalize();
    op.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x)
        .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y)
        .set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    operations_.push_back(op.finalize());
    return y;
  }
  Descriptor apply(cudnnPointwiseMode_t mode, const Descriptor& x, std::optional<Descriptor> b, const Descriptor& y) {
    return apply({.mode = mode, .x = x, .y = y, .b = std::move(b)});
  }
  Descriptor apply(const PointwiseOp& op) {
    operations_.push_back(pointwise(op));
    return op.y;
  }

  // `x` where row i sees column j: j <= i; else the number kHidden.
  Descriptor hide(const Descriptor& x) {
    auto index = [&](std::int64_t axis) {
      return apply({.mode = CUDNN_POINTWISE_GEN_INDEX,
                    .x = x,
                    .y = scores(CUDNN_DATA_INT32),
                    .precision = CUDNN_DATA_INT32,
                    .axis = axis});
    };
    Descriptor row = index(2);
    Descriptor column = index(3);
    Descriptor sees = apply({.mode = CUDNN_POINTWISE_CMP_GE,
                             .x = row,
                             .y = scores(CUDNN_DATA_BOOLEAN),
                             .b = column,
                             .precision = CUDNN_DATA_BOOLEAN});
    return apply({.mode = CUDNN_POINTWISE_BINARY_SELECT, .x = x, .y = scores(), .b = number(kHidden), .t = sees});
  }

  std::vector<Descriptor> take() && { return std::move(operations_); }

 private:
  GraphTensor tensor(std::int64_t id, std::int64_t rows, std::int64_t columns, cudnnDataType_t type) const {
    std::int64_t size = rows * columns;
    return {id, {shape_.batch, shape_.heads, rows, columns}, {shape_.heads * size, size, columns, 1}, type};
  }

  AttentionShape shape_;
  std::vector<Descriptor> operations_;
  std::int64_t next_ = 100;
};

}  // namespace

std::vector<Descriptor> attention_graph(const AttentionShape& a, bool log_sums) {
  Builder g(a);
  Descriptor products = g.scores();
  g.product(g.matrix(kQ, a.s, a.e), g.matrix(kK, a.t, a.e, true), products);
  Descriptor scores = g.apply(CUDNN_POINTWISE_MUL, products, g.number(kScale), g.scores());
  if (a.causal) scores = g.hide(scores);
  Descriptor largest = g.reduce(CUDNN_REDUCE_TENSOR_MAX, scores);
  Descriptor shifted = g.apply(CUDNN_POINTWISE_SUB, scores, largest, g.scores());
  Descriptor powers = g.apply(CUDNN_POINTWISE_EXP, shifted, std::nullopt, g.scores());
  Descriptor sums = g.reduce(CUDNN_REDUCE_TENSOR_ADD, powers);
  // cuDNN knows the pattern by these two even where nobody wants them.
  Descriptor logarithms = g.apply(CUDNN_POINTWISE_LOG, sums, std::nullopt, g.inner(a.s, 1));
  g.apply(CUDNN_POINTWISE_ADD, largest, logarithms, log_sums ? g.of_rows(kLogSums) : g.inner(a.s, 1));
  Descriptor probabilities = g.apply(CUDNN_POINTWISE_DIV, powers, sums, g.scores(CUDNN_DATA_BFLOAT16));
  g.product(probabilities, g.matrix(kV, a.t, a.f), g.matrix(kY, a.s, a.f));
  return std::move(g).take();
}

// With p the probabilities:  dv = p^T dy;  dp = dy v^T;  ds = scale p (dp - sum(y dy));  dq = ds k;  dk = ds^T q.
std::vector<Descriptor> attention_gradient_graph(const AttentionShape& a) {
  Builder g(a);
  Descriptor q = g.matrix(kQ, a.s, a.e), k = g.matrix(kK, a.t, a.e, true), dy = g.matrix(kDy, a.s, a.f);
  Descriptor scale = g.number(kScale);
  Descriptor parts = g.apply(CUDNN_POINTWISE_MUL, dy, g.matrix(kY, a.s, a.f), g.inner(a.s, a.f));
  Descriptor inner =
      g.apply(CUDNN_POINTWISE_MUL, g.reduce(CUDNN_REDUCE_TENSOR_ADD, parts), g.number(kOne), g.of_rows(kInner));

  Descriptor products = g.scores(), dp = g.scores();
  g.product(q, k, products);
  Descriptor scores = g.apply(CUDNN_POINTWISE_MUL, products, scale, g.scores());
  Descriptor logarithms = g.apply(CUDNN_POINTWISE_SUB, scores, g.of_rows(kLogSums), g.scores());
  if (a.causal) logarithms = g.hide(logarithms);
  Descriptor p = g.apply(CUDNN_POINTWISE_EXP, logarithms, std::nullopt, g.scores());
  g.product(g.transpose(p, g.inner(a.t, a.s, CUDNN_DATA_BFLOAT16, true)), dy, g.matrix(kDv, a.t, a.f));

  g.product(dy, g.matrix(kV, a.t, a.f, true), dp);
  Descriptor centred = g.apply(CUDNN_POINTWISE_SUB, dp, inner, g.scores());
  Descriptor slopes = g.apply(CUDNN_POINTWISE_MUL, centred, p, g.scores());
  Descriptor ds = g.apply(CUDNN_POINTWISE_MUL, slopes, scale, g.scores());
  g.product(g.transpose(ds, g.inner(a.t, a.s, CUDNN_DATA_BFLOAT16, true)), q, g.matrix(kDk, a.t, a.e));
  g.product(ds, g.transpose(k, g.inner(a.t, a.e, CUDNN_DATA_BFLOAT16)), g.matrix(kDq, a.s, a.e));
  return std::move(g).take();
}

}  // namespace unity::cuda
