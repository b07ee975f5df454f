// add(x, y) = x + y with broadcasting. Jointly linear: both operands hold partial sums, or none (a bias is affine).
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Add final : public BroadcastOperator {
 public:
  using BroadcastOperator::BroadcastOperator;
  std::string_view axioms() const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;

 protected:
  Linearity linearity() const override { return Linearity::joint; }
};

}  // namespace unity
