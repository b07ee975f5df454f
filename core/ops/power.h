// power(x; exponent): x^exponent, element-wise, for any real exponent; NaN where that is not a real number.
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Power final : public UnaryOperator {
 public:
  using UnaryOperator::UnaryOperator;
  std::string_view axioms() const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<AttributeSpec> attributes() const override;
  std::vector<Example> examples() const override;

 protected:
  double flops_per_point() const override { return 10; }
};

}  // namespace unity
