// rms_norm(x, gamma; epsilon=1e-6): y = x / sqrt(mean(x^2) + epsilon) gamma over the last dimension, which is whole.
// rms_norm_gradient(x, gamma, dy; epsilon) -> gradients of x and gamma; linear in dy.
// Source: Zhang, Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019, equation 4.
#pragma once

#include "core/ops/operator.h"

namespace unity {

class RmsNorm final : public Operator {
 public:
  using Operator::Operator;
  std::string_view axioms() const override;
  Arity arity() const override { return {2, 2}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

class RmsNormGradient final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {3, 3}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

}  // namespace unity
