#include "core/ops/relative_buckets.h"

#include <algorithm>
#include <cmath>

#include "core/ops/define.h"
#include "core/ops/elementwise.h"

namespace unity {

std::int32_t relative_bucket(std::int64_t distance, std::int64_t buckets, std::int64_t max_distance,
                             bool bidirectional) {
  std::int64_t first = 0;
  if (bidirectional) {
    buckets /= 2;
    if (distance > 0) first = buckets;
    distance = std::abs(distance);
  } else {
    distance = std::max<std::int64_t>(-distance, 0);
  }
  std::int64_t exact = buckets / 2;
  if (distance < exact) return static_cast<std::int32_t>(first + distance);
  double share = std::log(static_cast<double>(distance) / static_cast<double>(exact)) /
                 std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
  auto large = exact + static_cast<std::int64_t>(share * static_cast<double>(buckets - exact));
  return static_cast<std::int32_t>(first + std::min(large, buckets - 1));
}

std::vector<AttributeSpec> RelativeBuckets::attributes() const {
  return {{"q", AttributeKind::integer, true, {}},
          {"k", AttributeKind::integer, true, {}},
          {"buckets", AttributeKind::integer, true, {}},
          {"max_distance", AttributeKind::integer, true, {}},
          {"bidirectional", AttributeKind::integer, false, std::int64_t{1}}};
}

Result<AxisTable> RelativeBuckets::axes(const Attributes& a, std::span<const Shape>) const {
  UNITY_TRY(expect_flag(*this, a, 4));
  std::int64_t q = int_attribute(a, 0), k = int_attribute(a, 1), buckets = int_attribute(a, 2);
  std::int64_t least = int_attribute(a, 4) != 0 ? 4 : 2;
  if (q < 1 || k < 1) return fail("relative_buckets: found {} queries and {} keys, expected at least 1", q, k);
  if (buckets < least || buckets % least != 0 || int_attribute(a, 3) <= buckets / least)
    return fail("relative_buckets: {} buckets up to distance {}, expected a multiple of {} and a larger distance",
                buckets, int_attribute(a, 3), least);
  return elementwise_table({{q, k}, DType::i32}, 0, 8);
}

void RelativeBuckets::reference(const OpCall& call) const {
  const Operand& y = call.outputs[0];
  const Attributes& a = call.attributes;
  for_each_index(y.extent, [&](const Dims& at, std::int64_t i) {
    std::int64_t distance = y.offset[1] + at[1] - (y.offset[0] + at[0]);
    y.as<std::int32_t>()[i] =
        relative_bucket(distance, int_attribute(a, 2), int_attribute(a, 3), int_attribute(a, 4) != 0);
  });
}

std::vector<Example> RelativeBuckets::examples() const {
  auto attributes = [](std::int64_t q, std::int64_t k, std::int64_t buckets, std::int64_t bidirectional) {
    return Attributes{q, k, buckets, std::int64_t{32}, bidirectional};
  };
  return {{attributes(6, 6, 8, 1), {}}, {attributes(4, 6, 4, 0), {}}};
}
UNITY_DEFINE_OPERATOR(relative_buckets, RelativeBuckets)

}  // namespace unity
