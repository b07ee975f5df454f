// shift(amount, x) = x + amount, element-wise. Not linear: a shift of summands is no summand of the shift.
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Shift final : public UnaryOperator {
 public:
  using UnaryOperator::UnaryOperator;
  std::string_view axioms() const override;
  std::vector<AttributeSpec> attributes() const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

}  // namespace unity
