// relu(x) = max(x, 0), element-wise; relu_gradient(y, dy) = dy where y > 0, else 0 (linear in dy).
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Relu final : public UnaryOperator {
 public:
  using UnaryOperator::UnaryOperator;
  std::string_view axioms() const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
};

class ReluGradient final : public UnaryGradientOperator {
 public:
  using UnaryGradientOperator::UnaryGradientOperator;
  void reference(const OpCall& call) const override;
};

}  // namespace unity
