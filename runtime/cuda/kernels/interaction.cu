// Dot products of all pairs of a sample's features: a thread to a pair; its neighbours' features come out of the cache.
#include "runtime/cuda/call.h"
#include "runtime/cuda/math.h"
#include "runtime/cuda/walk.h"

namespace unity::cuda {
namespace {

constexpr int kUnderWay = 4;  // runs of elements that a thread asks for before it uses the first

// Of features i > j: their place among the pairs.
UNITY_DEVICE std::int64_t pair(std::int64_t i, std::int64_t j) { return i * (i - 1) / 2 + j; }

// The larger feature of a pair.
UNITY_DEVICE std::int64_t larger_of(std::int64_t p) {
  auto i = static_cast<std::int64_t>((1 + sqrt(1 + 8 * static_cast<float>(p))) / 2);
  while (pair(i, 0) > p) --i;  // the root is rounded
  while (pair(i + 1, 0) <= p) ++i;
  return i;
}

// In runs of N elements of a feature.
template <int N, class A>
void dot_products(Stream stream, A x, A y, std::int64_t samples, std::int64_t f, std::int64_t d) {
  using V = typename A::Value;
  const std::int64_t pairs = f * (f - 1) / 2, runs = d / N;
  Walk<2> walk({{samples, {1, 0}}, {pairs, {0, 1}}});
  for_each(
      stream, samples * pairs, UNITY_LAMBDA(std::int64_t t) {
        auto at = walk.locate(t);
        std::int64_t i = larger_of(at[1]), j = at[1] - pair(i, 0);
        std::int64_t left = (at[0] * f + i) * d, right = (at[0] * f + j) * d;
        V sum = 0;
        UNITY_NO_UNROLL
        for (std::int64_t first = 0; first < runs; first += kUnderWay) {
          decltype(x.template load_packed<N>(0)) a[kUnderWay], b[kUnderWay];
          UNITY_UNROLL
          for (int u = 0; u < kUnderWay; ++u) {
            std::int64_t run = (first + u < runs ? first + u : runs - 1) * N;
            a[u] = x.template load_packed<N>(left + run);
            b[u] = x.template load_packed<N>(right + run);
          }
          UNITY_UNROLL
          for (int u = 0; u < kUnderWay; ++u) {
            if (first + u >= runs) continue;
            auto p = x.template unpack<N>(a[u]), q = x.template unpack<N>(b[u]);
            UNITY_UNROLL
            for (int k = 0; k < N; ++k) sum += p.v[k] * q.v[k];
          }
        }
        y.store(t, sum);
      });
}

// dx[i] = sum over j != i of dy[i, j] x[j], a thread to a run of N elements of it.
template <int N, class A>
void dot_product_gradients(Stream stream, A x, A dy, A dx, std::int64_t samples, std::int64_t f, std::int64_t d) {
  using V = typename A::Value;
  const std::int64_t pairs = f * (f - 1) / 2;
  Walk<3> walk({{samples, {1, 0, 0}}, {f, {0, 1, 0}}, {d / N, {0, 0, N}}});
  for_each(
      stream, samples * f * (d / N), UNITY_LAMBDA(std::int64_t t) {
        auto at = walk.locate(t);
        const std::int64_t i = at[1], of_sample = at[0] * f * d + at[2];
        Several<V, N> sum{};
        UNITY_NO_UNROLL
        for (std::int64_t first = 0; first < f; first += kUnderWay) {
          decltype(x.template load_packed<N>(0)) items[kUnderWay];
          decltype(dy.template load_packed<1>(0)) slopes[kUnderWay];
          UNITY_UNROLL
          for (int u = 0; u < kUnderWay; ++u) {
            std::int64_t j = first + u < f ? first + u : f - 1;
            items[u] = x.template load_packed<N>(of_sample + j * d);
            // Of a feature with itself there is no slope: any is read.
            std::int64_t p = i > j ? pair(i, j) : i < j ? pair(j, i) : 0;
            slopes[u] = dy.template load_packed<1>(at[0] * pairs + p);
          }
          UNITY_UNROLL
          for (int u = 0; u < kUnderWay; ++u) {
            if (first + u >= f || first + u == i) continue;
            auto item = x.template unpack<N>(items[u]);
            V slope = dy.template unpack<1>(slopes[u]).v[0];
            UNITY_UNROLL
            for (int k = 0; k < N; ++k) sum.v[k] += slope * item.v[k];
          }
        }
        dx.store_several(of_sample + i * d, sum);
      });
}

}  // namespace

template <class R>
void dot_interaction_of(const Call& c) {
  auto x = reals<R>(c.inputs[0]), y = reals<R>(c.outputs[0]);
  const Dims& extent = c.inputs[0].extent;
  if (extent[2] % 4 == 0 && x.template aligned_for_several<4>())
    dot_products<4>(c.stream, x, y, extent[0], extent[1], extent[2]);
  else
    dot_products<1>(c.stream, x, y, extent[0], extent[1], extent[2]);
}
UNITY_CUDA_KERNEL(dot_interaction)

template <class R>
void dot_interaction_gradient_of(const Call& c) {
  auto x = reals<R>(c.inputs[0]), dy = reals<R>(c.inputs[1]), dx = reals<R>(c.outputs[0]);
  const Dims& extent = c.inputs[0].extent;
  if (extent[2] % 4 == 0 && x.template aligned_for_several<4>() && dx.template aligned_for_several<4>())
    dot_product_gradients<4>(c.stream, x, dy, dx, extent[0], extent[1], extent[2]);
  else
    dot_product_gradients<1>(c.stream, x, dy, dx, extent[0], extent[1], extent[2]);
}
UNITY_CUDA_KERNEL(dot_interaction_gradient)

}  // namespace unity::cuda
