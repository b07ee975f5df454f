// softmax(x) over the last dimension: y = exp(x - max) / sum exp(x - max). The last dimension must not be split.
// softmax_gradient(y, dy) = y (dy - sum y dy), linear in dy.
#pragma once

#include "core/ops/operator.h"

namespace unity {

class Softmax final : public Operator {
 public:
  using Operator::Operator;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

class SoftmaxGradient final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {2, 2}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

}  // namespace unity
