// erf(x) = 2 / sqrt(pi) * (integral of exp(-t^2) over t from 0 to x), element-wise. Models that are read from other
// programs have it as a part of gelu.
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Erf final : public UnaryOperator {
 public:
  using UnaryOperator::UnaryOperator;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;

 protected:
  double flops_per_point() const override { return 8; }
};

}  // namespace unity
