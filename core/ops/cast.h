// cast(x; dtype): "f32" (from i32: exact up to 2^24) or "i32" (from a real: toward zero). Between reals it changes
// nothing; then it is linear and has a gradient.
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Cast final : public Operator {
 public:
  using Operator::Operator;
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

}  // namespace unity
