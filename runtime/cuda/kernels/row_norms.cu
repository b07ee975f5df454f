// Layer norm and RMS norm: one group to a row. Their gradients are shared out to fewer groups than there are rows; each
// sums gamma's and beta's gradient over its rows, and the groups' sums are added up in a second step.
#include "runtime/cuda/call.h"
#include "runtime/cuda/norm_math.h"
#include "runtime/cuda/rows.h"

namespace unity::cuda {
namespace {

// Sums over rows of kSums values for each column, of the columns that one thread of a group has: in registers where the
// rows are held there, else in memory.
template <class V, int kSums>
class ColumnSums {
 public:
  UNITY_OF_GROUP ColumnSums(const Group& group, std::int64_t columns, bool held, V* memory, std::int64_t stride)
      : group_(group), columns_(columns), held_(held), memory_(memory), stride_(stride) {
    UNITY_UNROLL
    for (int i = 0; i < kHeld * kSums; ++i) sums_[i] = 0;
    for (std::int64_t j = group.rank(); !held && j < columns; j += group.size())
      for (int s = 0; s < kSums; ++s) memory_[s * stride_ + j] = 0;
  }
  UNITY_OF_GROUP void add(int s, std::int64_t j, int slot, V x) {
    if (held_)
      sums_[slot * kSums + s] += x;
    else
      memory_[s * stride_ + j] += x;
  }
  UNITY_OF_GROUP void store() {
    if (!held_) return;
    UNITY_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      std::int64_t j = group_.rank() + i * static_cast<std::int64_t>(group_.size());
      UNITY_UNROLL
      for (int s = 0; s < kSums; ++s)
        if (j < columns_) memory_[s * stride_ + j] = sums_[i * kSums + s];
    }
  }

 private:
  const Group& group_;
  std::int64_t columns_;
  bool held_;
  V* memory_;
  std::int64_t stride_;
  V sums_[kHeld * kSums];
};

}  // namespace

template <class R>
void layer_norm_of(const Call& c) {
  using V = typename R::Value;
  auto x = reals<R>(c.inputs[0]), gamma = reals<R>(c.inputs[1]), beta = reals<R>(c.inputs[2]),
       y = reals<R>(c.outputs[0]);
  auto epsilon = static_cast<V>(real_attribute(c.attributes, 0));
  std::int64_t n = c.inputs[0].extent.back();
  for_each_group(
      c.stream, rows_of(c.inputs[0]), row_work(n), UNITY_LAMBDA(std::int64_t r, const Group& group) {
        Row row(group, n, [&](std::int64_t j) { return x.load(r * n + j); });
        V mean = row.sum([](V v) { return v; }) / static_cast<V>(n);
        V variance = row.sum([&](V v) { return (v - mean) * (v - mean); }) / static_cast<V>(n);
        V inverse = inverse_root(variance + epsilon);
        row.each([&](std::int64_t j, V v, int) {
          y.store(r * n + j, gamma.load(j) * ((v - mean) * inverse) + beta.load(j));
        });
      });
}
UNITY_CUDA_KERNEL(layer_norm)

// With h the normalised row and q = gamma dy:  dx = (q - mean(q) - h mean(q h)) / sqrt(variance + epsilon).
template <class R>
void layer_norm_gradient_of(const Call& c) {
  using V = typename R::Value;
  auto x = reals<R>(c.inputs[0]), gamma = reals<R>(c.inputs[1]), dy = reals<R>(c.inputs[2]),
       dx = reals<R>(c.outputs[0]);
  auto epsilon = static_cast<V>(real_attribute(c.attributes, 0));
  std::int64_t n = c.inputs[0].extent.back(), rows = rows_of(c.inputs[0]), workers = row_workers(rows, row_work(n));
  auto* partial = static_cast<V*>(c.scratch(workers * n * 2 * static_cast<std::int64_t>(sizeof(V))));
  for_each_group(
      c.stream, workers, row_work(n), UNITY_LAMBDA(std::int64_t w, const Group& group) {
        bool held = n <= static_cast<std::int64_t>(kHeld) * group.size();
        ColumnSums<V, 2> sums(group, n, held, partial + w * n, workers * n);
        V over_n = 1 / static_cast<V>(n);
        for (std::int64_t r = w; r < rows; r += workers) {
          Row row(group, n, [&](std::int64_t j) { return NormItem<V>{x.load(r * n + j), dy.load(r * n + j)}; });
          V mean = row.sum([](const NormItem<V>& i) { return i.x; }) * over_n;
          V variance = row.sum([&](const NormItem<V>& i) { return (i.x - mean) * (i.x - mean); }) * over_n;
          V inverse = inverse_root(variance + epsilon), mean_q = 0, mean_qh = 0;
          row.each([&](std::int64_t j, const NormItem<V>& i, int slot) {
            V h = (i.x - mean) * inverse, q = gamma.load(j) * i.dy;
            mean_q += q, mean_qh += q * h;
            sums.add(0, j, slot, i.dy * h);
            sums.add(1, j, slot, i.dy);
          });
          mean_q = group.sum(mean_q) * over_n, mean_qh = group.sum(mean_qh) * over_n;
          row.each([&](std::int64_t j, const NormItem<V>& i, int) {
            dx.store(r * n + j, (gamma.load(j) * i.dy - mean_q - (i.x - mean) * inverse * mean_qh) * inverse);
          });
        }
        sums.store();
      });
  sum_parts(c.stream, partial, workers, n, reals<R>(c.outputs[1]));
  sum_parts(c.stream, partial + workers * n, workers, n, reals<R>(c.outputs[2]));
}
UNITY_CUDA_KERNEL(layer_norm_gradient)

template <class R>
void rms_norm_of(const Call& c) {
  using V = typename R::Value;
  auto x = reals<R>(c.inputs[0]), gamma = reals<R>(c.inputs[1]), y = reals<R>(c.outputs[0]);
  auto epsilon = static_cast<V>(real_attribute(c.attributes, 0));
  std::int64_t n = c.inputs[0].extent.back();
  for_each_group(
      c.stream, rows_of(c.inputs[0]), row_work(n), UNITY_LAMBDA(std::int64_t r, const Group& group) {
        Row row(group, n, [&](std::int64_t j) { return x.load(r * n + j); });
        V inverse = inverse_root(row.sum([](V v) { return v * v; }) / static_cast<V>(n) + epsilon);
        row.each([&](std::int64_t j, V v, int) { y.store(r * n + j, v * inverse * gamma.load(j)); });
      });
}
UNITY_CUDA_KERNEL(rms_norm)

// With i = 1 / sqrt(mean(x^2) + epsilon) and q = gamma dy:  dx = i (q - x i^2 mean(q x)).
template <class R>
void rms_norm_gradient_of(const Call& c) {
  using V = typename R::Value;
  auto x = reals<R>(c.inputs[0]), gamma = reals<R>(c.inputs[1]), dy = reals<R>(c.inputs[2]),
       dx = reals<R>(c.outputs[0]);
  auto epsilon = static_cast<V>(real_attribute(c.attributes, 0));
  std::int64_t n = c.inputs[0].extent.back(), rows = rows_of(c.inputs[0]), workers = row_workers(rows, row_work(n));
  auto* partial = static_cast<V*>(c.scratch(workers * n * static_cast<std::int64_t>(sizeof(V))));
  for_each_group(
      c.stream, workers, row_work(n), UNITY_LAMBDA(std::int64_t w, const Group& group) {
        bool held = n <= static_cast<std::int64_t>(kHeld) * group.size();
        ColumnSums<V, 1> sums(group, n, held, partial + w * n, workers * n);
        V over_n = 1 / static_cast<V>(n);
        for (std::int64_t r = w; r < rows; r += workers) {
          Row row(group, n, [&](std::int64_t j) { return NormItem<V>{x.load(r * n + j), dy.load(r * n + j)}; });
          V inverse = inverse_root(row.sum([](const NormItem<V>& i) { return i.x * i.x; }) * over_n + epsilon);
          V mean = 0;
          row.each([&](std::int64_t j, const NormItem<V>& i, int slot) {
            mean += gamma.load(j) * i.dy * i.x;
            sums.add(0, j, slot, i.dy * i.x * inverse);
          });
          mean = group.sum(mean) * over_n * inverse * inverse;
          row.each([&](std::int64_t j, const NormItem<V>& i, int) {
            dx.store(r * n + j, inverse * (gamma.load(j) * i.dy - i.x * mean));
          });
        }
        sums.store();
      });
  sum_parts(c.stream, partial, workers, n, reals<R>(c.outputs[1]));
}
UNITY_CUDA_KERNEL(rms_norm_gradient)

}  // namespace unity::cuda
