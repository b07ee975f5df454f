// Bases of the element-wise operators: every dimension is a parallel axis of its own.
#pragma once

#include "core/ops/operator.h"

namespace unity {

// y = f(x), f nonlinear.
class UnaryOperator : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {1, 1}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  std::vector<Example> examples() const override;
};

// dx = f'(r) dy, where r is the operand or the result of the forward operator: gradient(r, dy), linear in dy alone.
class UnaryGradientOperator : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {2, 2}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  std::vector<Example> examples() const override;
};

// A table in which each of `count` operands and the result walk the same axes, one for each dimension.
AxisTable elementwise_table(const Shape& shape, std::size_t count, double flops_per_point);

}  // namespace unity
