// transpose(perm, x): dimension i of the result is dimension perm[i] of x; linear.
#pragma once

#include "core/ops/operator.h"

namespace unity {

class Transpose final : public Operator {
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
