// mean_squared_error(x, y) -> scalar: the mean of (x - y)^2 over all elements of the whole tensor. All axes are
// reductions. mean_squared_error_gradient(x, y, dy) = 2 (x - y) dy / elements, the gradient in x; linear in the scalar
// dy.
#pragma once

#include "core/ops/operator.h"

namespace unity {

class MeanSquaredError final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {2, 2}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

class MeanSquaredErrorGradient final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {3, 3}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

}  // namespace unity
