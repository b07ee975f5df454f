// reduce_max(dims, x, detached=0): the largest value over the given dimensions (in increasing order), which the result
//   lacks. They are whole: who attains the maximum of several parts, and in what shares, no part can say alone. Where
//   no gradient is wanted (detached=1; PyTorch's detach), they are reduction axes whose parts give partial maxima.
// reduce_max_gradient(dims, x, y, dy): dy to every position that attains the maximum, in equal shares; linear in dy.
// argmax(dim, x): the position (i32) of the first largest value along dimension `dim`, which is whole and which the
//   result lacks. Not differentiable.
#pragma once

#include "core/ops/operator.h"

namespace unity {

class ReduceMax final : public Operator {
 public:
  using Operator::Operator;
  std::string_view axioms() const override;
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
  bool detached(const Attributes& attributes) const override { return int_attribute(attributes, 1) != 0; }
};

class ReduceMaxGradient final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {3, 3}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

class Argmax final : public Operator {
 public:
  using Operator::Operator;
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

}  // namespace unity
