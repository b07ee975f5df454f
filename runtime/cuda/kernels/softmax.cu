#include "core/ops/elementwise.h"
#include "core/ops/masked_softmax.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/norm_math.h"
#include "runtime/cuda/rows.h"

namespace unity::cuda {
namespace {

// Which positions of a row a softmax is over: those j < length(row) for which keeps(begin(row), j).
struct KeepAll {
  std::int64_t columns;
  UNITY_DEVICE std::int64_t length(std::int64_t) const { return columns; }
  UNITY_DEVICE std::int64_t begin(std::int64_t) const { return 0; }
  UNITY_DEVICE bool keeps(std::int64_t, std::int64_t) const { return true; }
};

struct KeepCausal {
  std::int64_t columns, rows, first, extra;  // extra: what the first logical row sees more than nothing
  UNITY_DEVICE std::int64_t length(std::int64_t row) const {
    std::int64_t n = first + row % rows + extra;
    return n < 0 ? 0 : n < columns ? n : columns;
  }
  UNITY_DEVICE std::int64_t begin(std::int64_t) const { return 0; }
  UNITY_DEVICE bool keeps(std::int64_t, std::int64_t) const { return true; }
};

constexpr int kMostDims = 8;

template <class R>
struct KeepMasked {
  typename R::Array mask;
  std::int64_t columns, column_stride;
  int dims;  // all but the last
  std::int64_t extent[kMostDims], stride[kMostDims];
  UNITY_DEVICE std::int64_t length(std::int64_t) const { return columns; }
  UNITY_DEVICE std::int64_t begin(std::int64_t row) const {
    std::int64_t at = 0;
    for (int d = dims - 1; d >= 0; --d) at += row % extent[d] * stride[d], row /= extent[d];
    return at;
  }
  UNITY_DEVICE bool keeps(std::int64_t begin, std::int64_t j) const {
    return mask.load(begin + j * column_stride) != 0;
  }
};

template <class R, class Keep>
void softmax_rows(const Call& c, Keep keep) {
  using V = typename R::Value;
  auto x = reals<R>(c.inputs[0]), y = reals<R>(c.outputs[0]);
  std::int64_t n = keep.columns;
  for_each_group(
      c.stream, rows_of(c.inputs[0]), row_work(n), UNITY_LAMBDA(std::int64_t r, const Group& group) {
        std::int64_t length = keep.length(r), begin = keep.begin(r);
        // Positions that the mask hides count as minus infinity, of which exp is zero.
        Row row(group, length,
                [&](std::int64_t j) { return keep.keeps(begin, j) ? x.load(r * n + j) : kMinusInfinity<V>; });
        V max = kMinusInfinity<V>;
        row.each([&](std::int64_t, V v, int) { max = exceeds(v, max) ? v : max; });
        max = group.max(max);
        V shift = max == kMinusInfinity<V> ? 0 : max;  // nothing is kept
        V sum = row.sum([&](V v) { return exp(v - shift); });
        V inverse = sum == 0 ? 0 : 1 / sum;
        row.each([&](std::int64_t j, V v, int) { y.store(r * n + j, exp(v - shift) * inverse); });
        for (std::int64_t j = length + group.rank(); j < n; j += group.size()) y.store(r * n + j, 0);
      });
}

}  // namespace

template <class R>
void softmax_of(const Call& c) {
  softmax_rows<R>(c, KeepAll{c.inputs[0].extent.back()});
}
UNITY_CUDA_KERNEL(softmax)

template <class R>
void causal_softmax_of(const Call& c) {
  const Operand& x = c.inputs[0];
  std::size_t q = x.extent.size() - 2;
  softmax_rows<R>(c, KeepCausal{x.extent.back(), x.extent[q], x.offset[q], 1 + x.global.back() - x.global[q]});
}
UNITY_CUDA_KERNEL(causal_softmax)

template <class R>
void masked_softmax_of(const Call& c) {
  const Operand &x = c.inputs[0], &mask = c.inputs[1];
  std::size_t rank = x.extent.size(), missing = rank - mask.extent.size();
  UNITY_CHECK(rank <= kMostDims, "cuda masked_softmax: {} dimensions, expected at most {}", rank, kMostDims);
  KeepMasked<R> keep{reals<R>(mask), x.extent.back(), 0, static_cast<int>(rank) - 1, {}, {}};
  std::int64_t stride = 1;
  for (std::size_t d = rank; d-- > 0;) {
    std::int64_t size = d < missing ? 1 : mask.extent[d - missing];
    std::int64_t step = size == 1 ? 0 : stride;
    stride *= size;
    if (d + 1 == rank)
      keep.column_stride = step;
    else
      keep.extent[d] = x.extent[d], keep.stride[d] = step;
  }
  softmax_rows<R>(c, keep);
}
UNITY_CUDA_KERNEL(masked_softmax)

template <class R>
void softmax_gradient_of(const Call& c) {
  using V = typename R::Value;
  auto y = reals<R>(c.inputs[0]), dy = reals<R>(c.inputs[1]), dx = reals<R>(c.outputs[0]);
  std::int64_t n = c.inputs[0].extent.back();
  for_each_group(
      c.stream, rows_of(c.inputs[0]), row_work(n), UNITY_LAMBDA(std::int64_t r, const Group& group) {
        struct Item {
          V y, dy;
        };
        Row row(group, n, [&](std::int64_t j) { return Item{y.load(r * n + j), dy.load(r * n + j)}; });
        V sum = row.sum([](const Item& i) { return i.y * i.dy; });
        row.each([&](std::int64_t j, const Item& i, int) { dx.store(r * n + j, i.y * (i.dy - sum)); });
      });
}
UNITY_CUDA_KERNEL(softmax_gradient)

}  // namespace unity::cuda
