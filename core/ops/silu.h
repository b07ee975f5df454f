// silu(x) = x sigmoid(x), element-wise; silu_gradient(x, dy), linear in dy.
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Silu final : public UnaryOperator {
 public:
  using UnaryOperator::UnaryOperator;
  std::string_view axioms() const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;

 protected:
  double flops_per_point() const override { return 9; }
};

class SiluGradient final : public UnaryGradientOperator {
 public:
  using UnaryGradientOperator::UnaryGradientOperator;
  void reference(const OpCall& call) const override;

 protected:
  double flops_per_point() const override { return 12; }
};

}  // namespace unity
