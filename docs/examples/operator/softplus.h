// softplus(x) = log(1 + exp(x)), element-wise: a relu without a corner.
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Softplus final : public UnaryOperator {
 public:
  using UnaryOperator::UnaryOperator;
  std::string_view axioms() const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;

 protected:
  double flops_per_point() const override { return 20; }
};

// In core/ops, operators.def declares this and whoever needs it finds it by name.
const Operator& softplus_operator();

}  // namespace unity
