// layer_norm(x, gamma, beta, epsilon=1e-5) over the last dimension, of size c (Ba, Kiros and Hinton 2016):
//   h = (x - mean) / sqrt(variance + epsilon);  y = gamma h + beta    gamma, beta: [c]; variance divides by c
// layer_norm_gradient(x, gamma, dy, epsilon=1e-5) -> dx, dgamma, dbeta; linear in dy. Rows are parallel in dx; dgamma
// and dbeta do not walk them, so splitting rows makes these two partial sums. The last dimension must not be split.
#pragma once

#include "core/ops/operator.h"

namespace unity {

class LayerNorm final : public Operator {
 public:
  using Operator::Operator;
  std::string_view axioms() const override;
  std::vector<AttributeSpec> attributes() const override;
  Arity arity() const override { return {3, 3}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

class LayerNormGradient final : public Operator {
 public:
  using Operator::Operator;
  std::vector<AttributeSpec> attributes() const override;
  Arity arity() const override { return {3, 3}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

}  // namespace unity
