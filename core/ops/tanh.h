// tanh(x), element-wise; tanh_gradient(y, dy) = (1 - y^2) dy, linear in dy.
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Tanh final : public UnaryOperator {
 public:
  using UnaryOperator::UnaryOperator;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;

 protected:
  double flops_per_point() const override { return 8; }
};

class TanhGradient final : public UnaryGradientOperator {
 public:
  using UnaryGradientOperator::UnaryGradientOperator;
  void reference(const OpCall& call) const override;

 protected:
  double flops_per_point() const override { return 3; }
};

}  // namespace unity
