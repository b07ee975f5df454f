// reshape(shape, x): the same elements in row-major order under other dimensions; linear. `shape` is that of the whole
// (unsharded) result.
//
// Table: read from the left, the sizes of both sides are factored into common axes (the largest common factor each
// time), so [b, s, h*e] -> [b, s, h, e] has the axes b, s, h, e. Where the sizes have no common factor, the shortest
// run of remaining factors with equal products becomes `whole` axes of each side's own: [3, 4] -> [2, 6] cannot be
// split, [6, 4] -> [4, 6] only in two. An axis that is minor in a dimension of either side is whole as well: splitting
// e in [h, e] -> [h*e] would not give a block of the result. Hence every legal shard is, in both shapes, the same
// elements in the same order: a copy.
#pragma once

#include "core/ops/operator.h"

namespace unity {

class Reshape final : public Operator {
 public:
  using Operator::Operator;
  std::string_view axioms() const override;
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

}  // namespace unity
