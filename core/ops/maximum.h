// maximum(x, y): the larger one, with broadcasting. Where they are equal each gets half of the gradient, so that it
// does not depend on their order.
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Maximum final : public BroadcastOperator {
 public:
  using BroadcastOperator::BroadcastOperator;
  std::string_view axioms() const override;

  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
};

// The gradient of an operator that takes one of two operands, of masks that say where the first and where the second is
// taken; where neither is, each gets half.
void gradient_of_choice(GradientBuilder& builder, GradientValue first, GradientValue second);

}  // namespace unity
