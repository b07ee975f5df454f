// log(x), natural, element-wise; NaN below zero. Its gradient is dy / x.
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Log final : public UnaryOperator {
 public:
  using UnaryOperator::UnaryOperator;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;

 protected:
  double flops_per_point() const override { return 8; }
};

}  // namespace unity
