// Dot products of all pairs of a sample's features: one warp to a sample, whose threads share out the dimension; tiles
// of features are held in registers, so that each number that is loaded serves several products.
#include "runtime/cuda/call.h"
#include "runtime/cuda/rows.h"

namespace unity::cuda {
namespace {

constexpr int kFeatures = 4, kColumns = 4;  // of a tile

// Of features i > j: their place among the pairs.
UNITY_DEVICE std::int64_t pair(std::int64_t i, std::int64_t j) { return i * (i - 1) / 2 + j; }

}  // namespace

template <class R>
void dot_interaction_of(const Call& c) {
  using V = typename R::Value;
  auto x = reals<R>(c.inputs[0]), y = reals<R>(c.outputs[0]);
  std::int64_t f = c.inputs[0].extent[1], d = c.inputs[0].extent[2], pairs = f * (f - 1) / 2;
  for_each_group(
      c.stream, c.inputs[0].extent[0], kWarpWork, UNITY_LAMBDA(std::int64_t b, const Group& group) {
        for (std::int64_t i0 = 0; i0 < f; i0 += kFeatures)
          for (std::int64_t j0 = 0; j0 <= i0; j0 += kFeatures) {
            V sums[kFeatures][kFeatures] = {};
            for (std::int64_t k = group.rank(); k < d; k += group.size()) {
              V left[kFeatures], right[kFeatures];
              UNITY_UNROLL
              for (int i = 0; i < kFeatures; ++i) {
                left[i] = i0 + i < f ? x.load((b * f + i0 + i) * d + k) : 0;
                right[i] = j0 + i < f ? x.load((b * f + j0 + i) * d + k) : 0;
              }
              UNITY_UNROLL
              for (int i = 0; i < kFeatures * kFeatures; ++i)
                sums[i / kFeatures][i % kFeatures] += left[i / kFeatures] * right[i % kFeatures];
            }
            UNITY_UNROLL
            for (int i = 0; i < kFeatures * kFeatures; ++i) {
              std::int64_t row = i0 + i / kFeatures, column = j0 + i % kFeatures;
              V sum = group.sum(sums[i / kFeatures][i % kFeatures]);
              if (group.rank() == 0 && row < f && column < row) y.store(b * pairs + pair(row, column), sum);
            }
          }
      });
}
UNITY_CUDA_KERNEL(dot_interaction)

// dx[i] = sum over j != i of dy[i, j] x[j].
template <class R>
void dot_interaction_gradient_of(const Call& c) {
  using V = typename R::Value;
  auto x = reals<R>(c.inputs[0]), dy = reals<R>(c.inputs[1]), dx = reals<R>(c.outputs[0]);
  std::int64_t f = c.inputs[0].extent[1], d = c.inputs[0].extent[2], pairs = f * (f - 1) / 2;
  for_each_group(
      c.stream, c.inputs[0].extent[0], kWarpWork, UNITY_LAMBDA(std::int64_t b, const Group& group) {
        for (std::int64_t i0 = 0; i0 < f; i0 += kFeatures)
          for (std::int64_t k0 = group.rank(); k0 < d; k0 += kColumns * group.size()) {
            V sums[kFeatures][kColumns] = {};
            for (std::int64_t j = 0; j < f; ++j) {
              V items[kColumns];
              UNITY_UNROLL
              for (int q = 0; q < kColumns; ++q) {
                std::int64_t k = k0 + q * group.size();
                items[q] = k < d ? x.load((b * f + j) * d + k) : 0;
              }
              UNITY_UNROLL
              for (int p = 0; p < kFeatures; ++p) {
                std::int64_t i = i0 + p;
                if (i == j || i >= f) continue;
                V slope = dy.load(b * pairs + (i > j ? pair(i, j) : pair(j, i)));
                UNITY_UNROLL
                for (int q = 0; q < kColumns; ++q) sums[p][q] += slope * items[q];
              }
            }
            UNITY_UNROLL
            for (int p = 0; p < kFeatures; ++p) UNITY_UNROLL
            for (int q = 0; q < kColumns; ++q) {
              std::int64_t i = i0 + p, k = k0 + q * group.size();
              if (i < f && k < d) dx.store((b * f + i) * d + k, sums[p][q]);
            }
          }
      });
}
UNITY_CUDA_KERNEL(dot_interaction_gradient)

}  // namespace unity::cuda
