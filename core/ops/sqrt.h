// sqrt(x), element-wise; NaN below zero. Its gradient is dy / (2 sqrt(x)).
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Sqrt final : public UnaryOperator {
 public:
  using UnaryOperator::UnaryOperator;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;

 protected:
  double flops_per_point() const override { return 4; }
};

}  // namespace unity
