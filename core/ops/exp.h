// exp(x), element-wise; its gradient is exp(x) dy.
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Exp final : public UnaryOperator {
 public:
  using UnaryOperator::UnaryOperator;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;

 protected:
  double flops_per_point() const override { return 8; }
};

}  // namespace unity
