// Group norm: one group of threads to a row (a sample's group of channels). The gradient's sums by channel go to
// scratch memory, one for each sample, and are added up in a second step.
#include "core/ops/group_norm.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/norm_math.h"
#include "runtime/cuda/rows.h"

namespace unity::cuda {

template <class R>
void group_norm_of(const Call& c) {
  using V = typename R::Value;
  auto x = reals<R>(c.inputs[0]), gamma = reals<R>(c.inputs[1]), beta = reals<R>(c.inputs[2]),
       y = reals<R>(c.outputs[0]);
  auto epsilon = static_cast<V>(real_attribute(c.attributes, 1));
  GroupLoops l = group_loops(c.attributes, c.inputs[0]);
  std::int64_t n = l.channels * l.inner;
  for_each_group(
      c.stream, l.rows, row_work(n), UNITY_LAMBDA(std::int64_t r, const Group& group) {
        Row row(group, n, [&](std::int64_t j) { return x.load(r * n + j); });
        V mean = row.sum([](V v) { return v; }) / static_cast<V>(n);
        V variance = row.sum([&](V v) { return (v - mean) * (v - mean); }) / static_cast<V>(n);
        V inverse = inverse_root(variance + epsilon);
        std::int64_t first = r % l.groups * l.channels;
        row.each([&](std::int64_t j, V v, int) {
          std::int64_t channel = first + j / l.inner;
          y.store(r * n + j, (v - mean) * inverse * gamma.load(channel) + beta.load(channel));
        });
      });
}
UNITY_CUDA_KERNEL(group_norm)

// With h the normalised row and q = gamma dy:  dx = (q - mean(q) - h mean(q h)) / sqrt(variance + epsilon).
template <class R>
void group_norm_gradient_of(const Call& c) {
  using V = typename R::Value;
  auto x = reals<R>(c.inputs[0]), gamma = reals<R>(c.inputs[1]), dy = reals<R>(c.inputs[2]),
       dx = reals<R>(c.outputs[0]);
  auto epsilon = static_cast<V>(real_attribute(c.attributes, 1));
  GroupLoops l = group_loops(c.attributes, c.inputs[0]);
  std::int64_t n = l.channels * l.inner, all = l.groups * l.channels, samples = l.rows / l.groups;
  // Of each sample and channel: the sums of dy h and of dy.
  auto* products = static_cast<V*>(c.scratch(2 * samples * all * static_cast<std::int64_t>(sizeof(V))));
  auto* sums = products + samples * all;
  for_each_group(
      c.stream, l.rows, row_work(n), UNITY_LAMBDA(std::int64_t r, const Group& group) {
        V over_n = 1 / static_cast<V>(n);
        Row row(group, n, [&](std::int64_t j) { return x.load(r * n + j); });
        V mean = row.sum([](V v) { return v; }) * over_n;
        V variance = row.sum([&](V v) { return (v - mean) * (v - mean); }) * over_n;
        V inverse = inverse_root(variance + epsilon);
        auto load = [&](std::int64_t j) { return NormItem<V>{x.load(r * n + j), dy.load(r * n + j)}; };

        std::int64_t first = r % l.groups * l.channels;  // channel in this block
        V mean_q = 0, mean_qh = 0;
        for (std::int64_t k = 0; k < l.channels; ++k) {
          V sum = 0, product = 0;
          each_item(
              group, l.inner, [&](std::int64_t j) { return load(k * l.inner + j); },
              [&](std::int64_t, const NormItem<V>& i) { sum += i.dy, product += i.dy * ((i.x - mean) * inverse); });
          sum = group.sum(sum), product = group.sum(product);
          mean_q += gamma.load(first + k) * sum, mean_qh += gamma.load(first + k) * product;
          if (group.rank() == 0) products[r * l.channels + k] = product, sums[r * l.channels + k] = sum;
        }
        mean_q *= over_n, mean_qh *= over_n;
        each_item(group, n, load, [&](std::int64_t j, const NormItem<V>& i) {
          V q = gamma.load(first + j / l.inner) * i.dy;
          dx.store(r * n + j, (q - mean_q - (i.x - mean) * inverse * mean_qh) * inverse);
        });
      });
  sum_parts(c.stream, products, samples, all, reals<R>(c.outputs[1]));
  sum_parts(c.stream, sums, samples, all, reals<R>(c.outputs[2]));
}
UNITY_CUDA_KERNEL(group_norm_gradient)

}  // namespace unity::cuda
