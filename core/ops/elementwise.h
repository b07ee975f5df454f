// Bases of the element-wise operators: every dimension is a parallel axis of its own.
#pragma once

#include "core/ops/reference.h"

namespace unity {

// y = f(x), f nonlinear.
class UnaryOperator : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {1, 1}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  std::vector<Example> examples() const override;

 protected:
  virtual double flops_per_point() const { return 1; }
};

// dx = f'(r) dy, where r is the operand or the result of the forward operator: gradient(r, dy), linear in dy alone.
class UnaryGradientOperator : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {2, 2}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  std::vector<Example> examples() const override;

 protected:
  virtual double flops_per_point() const { return 1; }
};

// z = f(x, y) with numpy's broadcasting: dimensions are aligned at the last one; a missing dimension, or one of size 1
// against n, is repeated and walks no axis.
class BroadcastOperator : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {2, 2}; }
  bool commutative() const override { return true; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  std::vector<Example> examples() const override;

 protected:
  virtual Linearity linearity() const { return Linearity::none; }
  virtual bool linear_in(std::size_t) const { return linearity() != Linearity::none; }
};

// The table of an operator on any number of operands with numpy's broadcasting; the result has the element type of
// operand `typed`. Error when sizes do not fit.
Result<AxisTable> broadcast_table(std::string_view op, std::span<const Shape> inputs, std::size_t typed = 0);

// Examples of two operands in which every way of broadcasting occurs.
std::vector<Example> broadcast_examples();

// A table in which each of `count` operands and the result walk the same axes, one for each dimension.
AxisTable elementwise_table(const Shape& shape, std::size_t count, double flops_per_point);

// Row-major position in a block of extent `operand` that is broadcast to the block index `index`.
std::int64_t broadcast_position(const Dims& operand, const Dims& index);

// z = f(x, y) on blocks with broadcasting: the body of a reference evaluator.
template <class F>
void broadcast_reference(const OpCall& call, F&& f) {
  dispatch_reference(call, [&]<class T>() {
    const Operand &x = call.inputs[0], &y = call.inputs[1];
    for_each_index(call.outputs[0].extent, [&](const Dims& index, std::int64_t i) {
      call.outputs[0].as<T>()[i] =
          f(x.as<T>()[broadcast_position(x.extent, index)], y.as<T>()[broadcast_position(y.extent, index)]);
    });
  });
}

}  // namespace unity
