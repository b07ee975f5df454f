// Rows, and elements of rows, looked up by index. What the block does not hold counts as zero, as does the index of a
// row outside the table.
#include <limits>

#include "core/ops/embedding_bag.h"
#include "core/ops/gather.h"
#include "core/ops/pick.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/rows.h"
#include "runtime/cuda/vector_access.h"

namespace unity::cuda {
namespace {

// Slices of the middle dimension of [outer, n, inner] whose first is slice `offset` of the logical tensor.
struct Slices {
  std::int64_t n, inner, offset;
  // -1: not here.
  UNITY_DEVICE std::int64_t row(std::int32_t id) const {
    std::int64_t at = id - offset;
    return at >= 0 && at < n ? at : -1;
  }
};

// Four elements at a time, read from x of elements G.
template <class G, class Array>
void look_up_fours(Stream stream, Dense<G> x, Dense<std::int32_t> ids, Array y, std::int64_t outer, std::int64_t count,
                   Slices s) {
  const std::int64_t fours = s.inner / 4;
  for_each_group(
      stream, outer * count, fours, UNITY_LAMBDA(std::int64_t r, const Group& group) {
        const std::int64_t o = outer == 1 ? 0 : r / count, row = s.row(ids.load(r - o * count));
        const std::int64_t from = (o * s.n + row) * s.inner, to = r * s.inner;
        each_item(
            group, fours, [&](std::int64_t j) { return row < 0 ? Four<G>{} : load_vector(x, from + 4 * j); },
            [&](std::int64_t j, const Four<G>& v) {
              store_vector(y, to + 4 * j, {{to_real(v.v[0]), to_real(v.v[1]), to_real(v.v[2]), to_real(v.v[3])}});
            });
      });
}

// y[o, i] = x[o, ids[i]] for o < outer.
template <class R>
void look_up(const Call& c, const Operand& table, const Operand& index, std::int64_t outer, Slices s) {
  using V = typename R::Value;
  auto x = reals<R>(table), y = reals<R>(c.outputs[0]);
  auto ids = indices(index);
  std::int64_t count = index.elements();
  if (s.inner % 4 == 0 && s.inner >= 32 && x.aligned() && y.aligned()) {
    if constexpr (std::is_same_v<R, Mixed>)
      if (table.dtype == DType::bf16)
        return look_up_fours(c.stream, Dense<BFloat16>{table.as<BFloat16>()}, ids, y, outer, count, s);
    return look_up_fours(c.stream, Dense<V>{table.as<V>()}, ids, y, outer, count, s);
  }
  for_each_in_rows(
      c.stream, outer * count, s.inner,
      UNITY_LAMBDA(std::int64_t r) {
        std::int64_t row = s.row(ids.load(r % count));
        return row < 0 ? row : (r / count * s.n + row) * s.inner;
      },
      UNITY_LAMBDA(std::int64_t from, std::int64_t, std::int64_t j) { return from < 0 ? V(0) : x.load(from + j); },
      UNITY_LAMBDA(std::int64_t, std::int64_t r, std::int64_t j, V v) { y.store(r * s.inner + j, v); });
}

}  // namespace

template <class R>
void embedding_of(const Call& c) {
  const Operand& table = c.inputs[1];
  look_up<R>(c, table, c.inputs[0], 1, {table.extent[0], table.extent[1], table.offset[0]});
}
UNITY_CUDA_KERNEL(embedding)

template <class R>
void gather_of(const Call& c) {
  GatherLoops l = gather_loops(int_attribute(c.attributes, 0), c.inputs[0]);
  look_up<R>(c, c.inputs[0], c.inputs[1], l.outer, {l.n, l.inner, l.offset});
}
UNITY_CUDA_KERNEL(gather)

// Kernels cannot throw: an index outside [0, c) makes its result, and its row of the gradient, NaN.
template <class R>
void pick_of(const Call& c) {
  using V = typename R::Value;
  const Operand& block = c.inputs[0];
  std::int64_t n = block.extent.back(), offset = block.offset.back(), global = block.global.back();
  auto x = reals<R>(block), y = reals<R>(c.outputs[0]);
  auto ids = indices(c.inputs[1]);
  for_each(
      c.stream, c.outputs[0].elements(), UNITY_LAMBDA(std::int64_t r) {
        std::int64_t index = ids.load(r), at = index - offset;
        if (index < 0 || index >= global)
          y.store(r, std::numeric_limits<V>::quiet_NaN());
        else
          y.store(r, at >= 0 && at < n ? x.load(r * n + at) : V(0));
      });
}
UNITY_CUDA_KERNEL(pick)

template <class R>
void pick_gradient_of(const Call& c) {
  using V = typename R::Value;
  const Operand& block = c.outputs[0];
  std::int64_t n = block.extent.back(), offset = block.offset.back(), global = block.global.back();
  auto dy = reals<R>(c.inputs[1]), dx = reals<R>(block);
  auto ids = indices(c.inputs[0]);
  for_each_in_rows(
      c.stream, c.inputs[1].elements(), n, UNITY_LAMBDA(std::int64_t r) { return std::int64_t{ids.load(r)}; },
      UNITY_LAMBDA(std::int64_t index, std::int64_t r, std::int64_t j) {
        if (index < 0 || index >= global) return std::numeric_limits<V>::quiet_NaN();
        return index == j + offset ? dy.load(r) : V(0);
      },
      UNITY_LAMBDA(std::int64_t, std::int64_t r, std::int64_t j, V v) { dx.store(r * n + j, v); });
}
UNITY_CUDA_KERNEL(pick_gradient)

template <class R>
void embedding_bag_of(const Call& c) {
  using V = typename R::Value;
  const Operand& table = c.inputs[1];
  auto x = reals<R>(table), y = reals<R>(c.outputs[0]);
  auto ids = indices(c.inputs[0]);
  Slices s{table.extent[0], table.extent[1], table.offset[0]};
  std::int64_t bag = c.inputs[0].extent[1];
  auto factor = static_cast<V>(embedding_bag_factor(c.attributes, c.inputs[0]));
  for_each_in_rows(
      c.stream, c.outputs[0].extent[0], s.inner, UNITY_LAMBDA(std::int64_t b) { return b * bag; },
      UNITY_LAMBDA(std::int64_t first, std::int64_t, std::int64_t j) {
        V sum = 0;
        for (std::int64_t i = first; i < first + bag; ++i) {
          std::int64_t row = s.row(ids.load(i));
          sum += row < 0 ? V(0) : x.load(row * s.inner + j);
        }
        return sum * factor;
      },
      UNITY_LAMBDA(std::int64_t, std::int64_t b, std::int64_t j, V sum) { y.store(b * s.inner + j, sum); });
}
UNITY_CUDA_KERNEL(embedding_bag)

}  // namespace unity::cuda
