// gelu(x) = x Phi(x) with the exact normal distribution Phi (erf; Hendrycks and Gimpel 2016), element-wise;
// gelu_gradient(x, dy) = (Phi(x) + x phi(x)) dy, linear in dy.
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Gelu final : public UnaryOperator {
 public:
  using UnaryOperator::UnaryOperator;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;

 protected:
  double flops_per_point() const override { return 8; }
};

class GeluGradient final : public UnaryGradientOperator {
 public:
  using UnaryGradientOperator::UnaryGradientOperator;
  void reference(const OpCall& call) const override;

 protected:
  double flops_per_point() const override { return 12; }
};

}  // namespace unity
