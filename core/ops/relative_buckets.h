// relative_buckets(q, k, buckets, max_distance; bidirectional=1): a leaf, i32 [q, k]: the bucket of the distance from
//   query i to key j = memory position - query position. Bidirectional: half of the buckets for each sign; otherwise
//   keys after the query share bucket 0. Half of the remaining buckets are exact distances, the rest grow
//   logarithmically up to max_distance. Any part of it can be computed anywhere, so it moves no bytes.
// Source: Raffel et al., "Exploring the Limits of Transfer Learning", JMLR 2020, section 2.1 (relative position).
#pragma once

#include "core/ops/operator.h"

namespace unity {

class RelativeBuckets final : public Operator {
 public:
  using Operator::Operator;
  OpCategory category() const override { return OpCategory::leaf; }
  Arity arity() const override { return {0, 0}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

// The bucket of one distance; it never falls as a key moves away before the query.
std::int32_t relative_bucket(std::int64_t distance, std::int64_t buckets, std::int64_t max_distance,
                             bool bidirectional);

}  // namespace unity
