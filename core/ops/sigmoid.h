// sigmoid(x) = 1 / (1 + exp(-x)), element-wise; sigmoid_gradient(y, dy) = y (1 - y) dy, linear in dy.
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Sigmoid final : public UnaryOperator {
 public:
  using UnaryOperator::UnaryOperator;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;

 protected:
  double flops_per_point() const override { return 8; }
};

class SigmoidGradient final : public UnaryGradientOperator {
 public:
  using UnaryGradientOperator::UnaryGradientOperator;
  void reference(const OpCall& call) const override;

 protected:
  double flops_per_point() const override { return 3; }
};

}  // namespace unity
