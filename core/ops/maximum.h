// maximum(x, y): the larger one, with broadcasting. Where they are equal the gradient goes to y.
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

}  // namespace unity
