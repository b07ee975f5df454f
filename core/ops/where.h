// where(condition, x, y): x where the condition (i32) is not 0, else y, with broadcasting of all three. Jointly linear
// in x and y.
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Where final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {3, 3}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
  // Conditions are drawn from 0 and 1.
  std::optional<std::int64_t> index_bound(const Attributes&, std::span<const Shape>, std::size_t k) const override {
    return k == 0 ? std::optional<std::int64_t>(2) : std::nullopt;
  }
};

}  // namespace unity
