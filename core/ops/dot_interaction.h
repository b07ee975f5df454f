// dot_interaction(x): the dot products of all pairs of features (DLRM): x: [b, f, d] -> [b, f (f - 1) / 2], the
// strictly
//   lower triangle of x x^T row by row: (1,0), (2,0), (2,1), (3,0), ..
//   b is parallel, f and the pairs are whole, d is a reduction axis: shards of d give partial sums. Not linear.
// dot_interaction_gradient(x, dy) -> the shape of x; linear in dy.
// Source: Naumov et al., "Deep Learning Recommendation Model", 2019, section 2.1.
#pragma once

#include "core/ops/operator.h"

namespace unity {

class DotInteraction final : public Operator {
 public:
  using Operator::Operator;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

class DotInteractionGradient final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {2, 2}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

}  // namespace unity
