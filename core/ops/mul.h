// mul(x, y) = x y element-wise with broadcasting; multilinear: one operand may hold partial sums.
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Mul final : public BroadcastOperator {
 public:
  using BroadcastOperator::BroadcastOperator;
  std::string_view axioms() const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;

 protected:
  Linearity linearity() const override { return Linearity::multilinear; }
};

}  // namespace unity
