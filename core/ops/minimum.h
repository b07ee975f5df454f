// minimum(x, y): the smaller one, with broadcasting. Where they are equal each gets half of the gradient.
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Minimum final : public BroadcastOperator {
 public:
  using BroadcastOperator::BroadcastOperator;
  std::string_view axioms() const override;

  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
};

}  // namespace unity
