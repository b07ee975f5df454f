// Leaves that are computed: dropout masks and buckets of relative positions.
#include "core/ops/dropout_mask.h"
#include "core/ops/relative_buckets.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/walk.h"

namespace unity::cuda {

template <class R>
void dropout_mask_of(const Call& c) {
  using T = typename R::Value;
  const Operand& out = c.outputs[0];
  double rate = real_attribute(c.attributes, 1);
  auto kept = static_cast<T>(1 / (1 - rate));
  Dims local = strides(out.extent), logical = strides(out.global);
  std::vector<Loop<2>> loops;
  std::int64_t first = 0;
  for (std::size_t d = 0; d < out.extent.size(); ++d) {
    loops.push_back({out.extent[d], {local[d], logical[d]}});
    first += out.offset[d] * logical[d];
  }
  Walk<2> walk(loops);
  auto y = reals<R>(out);
  RandomKey random = c.random;
  const StepValues* step = c.step;
  for_each(
      c.stream, walk.iterations(), UNITY_LAMBDA(std::int64_t i) {
        auto at = walk.locate(i);
        y.store(at[0], dropout_keeps(random.with(step->step), first + at[1], rate) ? kept : T(0));
      });
}
UNITY_CUDA_KERNEL(dropout_mask)

namespace {

// The distances at which the bucket of a key before the query rises, found on the host: logarithms on the device may
// round to the other side of a boundary.
struct Thresholds {
  static constexpr std::int64_t kMost = 255;
  std::int32_t count = 0;
  std::int32_t at[kMost];
  UNITY_DEVICE std::int32_t passed(std::int64_t distance) const {
    std::int32_t n = 0;
    while (n < count && at[n] <= distance) ++n;
    return n;
  }
};

}  // namespace

void relative_buckets_kernel(const Call& c) {
  const Operand& out = c.outputs[0];
  std::int64_t buckets = int_attribute(c.attributes, 2), max_distance = int_attribute(c.attributes, 3);
  bool bidirectional = int_attribute(c.attributes, 4) != 0;
  Thresholds thresholds;
  for (std::int64_t d = 0; d <= max_distance; ++d)
    while (thresholds.count < relative_bucket(-d, buckets, max_distance, bidirectional)) {
      UNITY_CHECK(thresholds.count < Thresholds::kMost, "relative_buckets: {} buckets, the CUDA kernel has at most {}",
                  buckets, Thresholds::kMost);
      thresholds.at[thresholds.count++] = static_cast<std::int32_t>(d);
    }
  auto after = static_cast<std::int32_t>(bidirectional ? buckets / 2 : 0);  // the first bucket of keys after the query
  std::int64_t keys = out.extent[1], first = out.offset[1] - out.offset[0];
  auto y = indices(out);
  for_each(
      c.stream, out.elements(), UNITY_LAMBDA(std::int64_t i) {
        std::int64_t distance = first + i % keys - i / keys;
        std::int64_t away = distance <= 0 ? -distance : bidirectional ? distance : 0;
        y.store(i, thresholds.passed(away) + (distance > 0 ? after : 0));
      });
}

}  // namespace unity::cuda
