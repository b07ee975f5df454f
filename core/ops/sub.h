// sub(x, y) = x - y with broadcasting. Jointly linear.
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Sub final : public BroadcastOperator {
 public:
  using BroadcastOperator::BroadcastOperator;
  std::string_view axioms() const override;
  bool commutative() const override { return false; }
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;

 protected:
  Linearity linearity() const override { return Linearity::joint; }
};

}  // namespace unity
