// Attention of any type and shape, for what cuDNN does not take. One warp to a row of q (and, for the gradients of k
// and v, to a row of k): first its threads share out the positions and leave each one's weight in scratch memory, of
// which every warp has a row; then they share out the columns of what the weights multiply.
#include "core/ops/attention.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/norm_math.h"
#include "runtime/cuda/rows.h"

namespace unity::cuda {
namespace {

template <class R>
struct Heads {
  using V = typename R::Value;
  typename R::Array q, k, v;
  AttentionLoops l;
  V scale;
  bool causal;

  // How many positions row r of the block sees.
  UNITY_DEVICE std::int64_t length(std::int64_t r) const {
    std::int64_t n = l.first + r + 1 + l.t - l.rows;
    return !causal || n > l.t ? l.t : n < 0 ? 0 : n;
  }
  // Of row `row` of all batches and position j of its batch b.
  UNITY_DEVICE V score(std::int64_t b, std::int64_t row, std::int64_t j) const {
    V dot = 0;
    for (std::int64_t i = 0; i < l.e; ++i) dot += q.load(row * l.e + i) * k.load((b * l.t + j) * l.e + i);
    return scale * dot;
  }
  // The gradient of the probability of position j.
  UNITY_DEVICE V slope(const typename R::Array& dy, std::int64_t b, std::int64_t row, std::int64_t j) const {
    V dot = 0;
    for (std::int64_t i = 0; i < l.f; ++i) dot += dy.load(row * l.f + i) * v.load((b * l.t + j) * l.f + i);
    return dot;
  }
};

template <class R>
Heads<R> heads_of(const Call& c) {
  return {reals<R>(c.inputs[0]),
          reals<R>(c.inputs[1]),
          reals<R>(c.inputs[2]),
          attention_loops(c.inputs[0], c.inputs[1], c.inputs[2]),
          static_cast<typename R::Value>(real_attribute(c.attributes, 0)),
          int_attribute(c.attributes, 1) != 0};
}

// p[j] = exp(score - max) for j < length, and what the row is divided by.
template <class V>
struct RowWeights {
  V max, inverse;  // 0 where nothing is seen
};
template <class R, class V = typename R::Value>
UNITY_OF_GROUP RowWeights<V> row_weights(const Group& group, const Heads<R>& h, std::int64_t row, V* p) {
  std::int64_t b = row / h.l.s, length = h.length(row % h.l.s);
  V max = kMinusInfinity<V>, sum = 0;
  for (std::int64_t j = group.rank(); j < length; j += group.size()) {
    V score = p[j] = h.score(b, row, j);
    max = exceeds(score, max) ? score : max;
  }
  max = group.max(max);
  for (std::int64_t j = group.rank(); j < length; j += group.size()) sum += p[j] = exp(p[j] - max);
  sum = group.sum(sum);
  return {max, sum == 0 ? 0 : 1 / sum};
}

// Warps that work at a time, for rows of scratch memory of so many bytes: enough to fill a large GPU, within 128 MiB.
std::int64_t warps(std::int64_t rows, std::int64_t bytes) {
  std::int64_t fit = (std::int64_t{1} << 27) / std::max<std::int64_t>(bytes, 1);
  return std::min(rows, std::clamp<std::int64_t>(fit, 64, 4224));
}

}  // namespace

template <class R>
void attention_of(const Call& c) {
  using V = typename R::Value;
  Heads<R> h = heads_of<R>(c);
  auto y = reals<R>(c.outputs[0]);
  std::int64_t rows = h.l.batch * h.l.s, row_bytes = h.l.t * static_cast<std::int64_t>(sizeof(V));
  std::int64_t workers = warps(rows, row_bytes);
  auto* scratch = static_cast<V*>(c.scratch(workers * row_bytes));
  for_each_group(
      c.stream, workers, kWarpWork, UNITY_LAMBDA(std::int64_t w, const Group& group) {
        V* p = scratch + w * h.l.t;
        for (std::int64_t row = w; row < rows; row += workers) {
          std::int64_t b = row / h.l.s, length = h.length(row % h.l.s);
          V inverse = row_weights(group, h, row, p).inverse;
          group.sync();
          for (std::int64_t j = group.rank(); j < h.l.f; j += group.size()) {
            V sum = 0;
            for (std::int64_t i = 0; i < length; ++i) sum += p[i] * h.v.load((b * h.l.t + i) * h.l.f + j);
            y.store(row * h.l.f + j, sum * inverse);
          }
          group.sync();  // before the next row's weights
        }
      });
}
UNITY_CUDA_KERNEL(attention)

// With p the probabilities of a row:  dv += p^T dy;  dp = dy v^T;  ds = p (dp - sum p dp);  dq = scale ds k;
// dk += scale ds^T q. Rows leave their maximum, divisor and sum p dp for the second step, which forms p again.
template <class R>
void attention_gradient_of(const Call& c) {
  using V = typename R::Value;
  Heads<R> h = heads_of<R>(c);
  auto dy = reals<R>(c.inputs[3]), dq = reals<R>(c.outputs[0]), dk = reals<R>(c.outputs[1]),
       dv = reals<R>(c.outputs[2]);
  std::int64_t rows = h.l.batch * h.l.s, positions = h.l.batch * h.l.t;
  std::int64_t longest = std::max(h.l.t, h.l.s), row_bytes = 2 * longest * static_cast<std::int64_t>(sizeof(V));
  std::int64_t workers = warps(std::max(rows, positions), row_bytes);
  auto* scratch = static_cast<V*>(c.scratch(workers * row_bytes + rows * 3 * static_cast<std::int64_t>(sizeof(V))));
  V* of_rows = scratch + workers * 2 * longest;  // maximum, divisor, inner

  for_each_group(
      c.stream, workers, kWarpWork, UNITY_LAMBDA(std::int64_t w, const Group& group) {
        V *p = scratch + w * 2 * longest, *ds = p + longest;
        for (std::int64_t row = w; row < rows; row += workers) {
          std::int64_t b = row / h.l.s, length = h.length(row % h.l.s);
          RowWeights<V> weights = row_weights(group, h, row, p);
          V inner = 0;
          for (std::int64_t j = group.rank(); j < length; j += group.size()) {
            p[j] *= weights.inverse;
            inner += p[j] * (ds[j] = h.slope(dy, b, row, j));
          }
          inner = group.sum(inner);
          for (std::int64_t j = group.rank(); j < length; j += group.size()) ds[j] = h.scale * p[j] * (ds[j] - inner);
          if (group.rank() == 0)
            of_rows[3 * row] = weights.max, of_rows[3 * row + 1] = weights.inverse, of_rows[3 * row + 2] = inner;
          group.sync();
          for (std::int64_t j = group.rank(); j < h.l.e; j += group.size()) {
            V sum = 0;
            for (std::int64_t i = 0; i < length; ++i) sum += ds[i] * h.k.load((b * h.l.t + i) * h.l.e + j);
            dq.store(row * h.l.e + j, sum);
          }
          group.sync();  // before the next row's weights
        }
      });
  for_each_group(
      c.stream, workers, kWarpWork, UNITY_LAMBDA(std::int64_t w, const Group& group) {
        V *p = scratch + w * 2 * longest, *ds = p + longest;
        for (std::int64_t at = w; at < positions; at += workers) {
          std::int64_t b = at / h.l.t, position = at % h.l.t, first = b * h.l.s;
          for (std::int64_t r = group.rank(); r < h.l.s; r += group.size()) {
            const V* of = of_rows + 3 * (first + r);
            bool seen = position < h.length(r);
            p[r] = seen ? exp(h.score(b, first + r, position) - of[0]) * of[1] : 0;
            ds[r] = seen ? h.scale * p[r] * (h.slope(dy, b, first + r, position) - of[2]) : 0;
          }
          group.sync();
          for (std::int64_t j = group.rank(); j < h.l.f; j += group.size()) {
            V sum = 0;
            for (std::int64_t r = 0; r < h.l.s; ++r) sum += p[r] * dy.load((first + r) * h.l.f + j);
            dv.store(at * h.l.f + j, sum);
          }
          for (std::int64_t j = group.rank(); j < h.l.e; j += group.size()) {
            V sum = 0;
            for (std::int64_t r = 0; r < h.l.s; ++r) sum += ds[r] * h.q.load((first + r) * h.l.e + j);
            dk.store(at * h.l.e + j, sum);
          }
          group.sync();  // before the next position's weights
        }
      });
}
UNITY_CUDA_KERNEL(attention_gradient)

}  // namespace unity::cuda
