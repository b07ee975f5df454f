// Matrix products of any type and shape, for what cuBLASLt does not take. A thread forms kTile x kTile elements of the
// result, so that each number it loads serves several products; neighbouring threads take neighbouring columns.
#include "core/ops/matmul.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/rows.h"

namespace unity::cuda {
namespace {

constexpr int kTile = 4;

// Element (i, j) of matrix b lies at b * batch + i * row + j * column.
template <class R>
struct Matrices {
  typename R::Array data;
  std::int64_t batch, row, column;
};

struct ProductSizes {
  std::int64_t batch, m, n, k;
};

// y[b] = left[b] right[b], through ReLU if wanted, or with an operand added, which may be where y is: [m, k] times
// [k, n].
template <class R>
void multiply(const Call& c, const ProductSizes& s, Matrices<R> left, Matrices<R> right, bool relu = false,
              const Operand* added = nullptr) {
  using V = typename R::Value;
  auto y = reals<R>(c.outputs[0]);
  const bool add = added != nullptr;
  auto addend = reals<R>(add ? *added : c.outputs[0]);
  std::int64_t m = s.m, n = s.n, k = s.k, across = (n + kTile - 1) / kTile, down = (m + kTile - 1) / kTile;
  for_each(
      c.stream, s.batch * down * across, UNITY_LAMBDA(std::int64_t t) {
        std::int64_t b = t / (down * across), first_row = t / across % down * kTile, first_column = t % across;
        std::int64_t a_at[kTile], b_at[kTile];  // past the edge: some element, whose products are not stored
        V sums[kTile][kTile] = {};
        UNITY_UNROLL
        for (int i = 0; i < kTile; ++i) {
          std::int64_t row = first_row + i, column = first_column + i * across;
          a_at[i] = b * left.batch + (row < m ? row : m - 1) * left.row;
          b_at[i] = b * right.batch + (column < n ? column : n - 1) * right.column;
        }
        for (std::int64_t l = 0; l < k; ++l) {
          V from_left[kTile], from_right[kTile];
          UNITY_UNROLL
          for (int i = 0; i < kTile; ++i) {
            from_left[i] = left.data.load(a_at[i] + l * left.column);
            from_right[i] = right.data.load(b_at[i] + l * right.row);
          }
          UNITY_UNROLL
          for (int i = 0; i < kTile * kTile; ++i)
            sums[i / kTile][i % kTile] += from_left[i / kTile] * from_right[i % kTile];
        }
        UNITY_UNROLL
        for (int i = 0; i < kTile * kTile; ++i) {
          std::int64_t row = first_row + i / kTile, column = first_column + i % kTile * across;
          if (row >= m || column >= n) continue;
          V sum = sums[i / kTile][i % kTile];
          std::int64_t at = (b * m + row) * n + column;
          if (relu && sum <= 0) sum = 0;
          if (add) sum += addend.load(at);
          y.store(at, sum);
        }
      });
}

// A matrix of this many columns, or the transpose of one.
template <class R>
Matrices<R> matrices(const Operand& o, std::int64_t batch, std::int64_t columns, bool transposed) {
  return {reals<R>(o), batch, transposed ? 1 : columns, transposed ? columns : 1};
}

}  // namespace

template <class R>
void matmul_with(const Call& c, const Operand* sum) {
  bool relu = text_attribute(c.attributes, 0) == "relu", transposed = int_attribute(c.attributes, 1) != 0;
  std::int64_t k = c.inputs[0].extent.back(), n = c.outputs[0].extent.back();
  multiply<R>(c, {1, rows_of(c.inputs[0]), n, k}, matrices<R>(c.inputs[0], 0, k, false),
              matrices<R>(c.inputs[1], 0, transposed ? k : n, transposed), relu, sum);
}
template <class R>
void matmul_of(const Call& c) {
  matmul_with<R>(c, nullptr);
}
UNITY_CUDA_KERNEL(matmul)

template <class R>
void matmul_accumulate_of(const Call& c) {
  matmul_with<R>(c, &c.inputs[2]);
}
UNITY_CUDA_KERNEL(matmul_accumulate)

template <class R>
void weight_gradient(const Call& c, const Operand* sum) {
  std::int64_t k = c.outputs[0].extent[0], n = c.outputs[0].extent[1];
  multiply<R>(c, {1, k, n, rows_of(c.inputs[0])}, matrices<R>(c.inputs[0], 0, k, true),
              matrices<R>(c.inputs[1], 0, n, false), false, sum);
}
template <class R>
void matmul_weight_gradient_of(const Call& c) {
  weight_gradient<R>(c, nullptr);
}
UNITY_CUDA_KERNEL(matmul_weight_gradient)

template <class R>
void matmul_weight_gradient_accumulate_of(const Call& c) {
  weight_gradient<R>(c, &c.inputs[2]);
}
UNITY_CUDA_KERNEL(matmul_weight_gradient_accumulate)

template <class R>
void batch_matmul_of(const Call& c) {
  bool ta = int_attribute(c.attributes, 0) != 0, tb = int_attribute(c.attributes, 1) != 0;
  const Dims &y = c.outputs[0].extent, &a = c.inputs[0].extent;
  std::int64_t m = y[y.size() - 2], n = y.back(), k = a[a.size() - (ta ? 2 : 1)];
  std::int64_t batch = m * n == 0 ? 0 : c.outputs[0].elements() / (m * n);
  multiply<R>(c, {batch, m, n, k}, matrices<R>(c.inputs[0], m * k, ta ? m : k, ta),
              matrices<R>(c.inputs[1], k * n, tb ? k : n, tb));
}
UNITY_CUDA_KERNEL(batch_matmul)

}  // namespace unity::cuda
