// div(x, y) = x / y with broadcasting. Linear in x.
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Div final : public BroadcastOperator {
 public:
  using BroadcastOperator::BroadcastOperator;
  std::string_view axioms() const override;
  bool commutative() const override { return false; }
  std::vector<Example> examples() const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;

 protected:
  Linearity linearity() const override { return Linearity::multilinear; }
  bool linear_in(std::size_t operand) const override { return operand == 0; }
};

}  // namespace unity
