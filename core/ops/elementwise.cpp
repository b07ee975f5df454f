#include "core/ops/elementwise.h"

#include "core/ops/define.h"

namespace unity {

AxisTable elementwise_table(const Shape& shape, std::size_t count, double flops_per_point) {
  AxisTable t;
  OperandAxes operand;
  for (std::size_t i = 0; i < shape.dims.size(); ++i) {
    t.axes.push_back({fmt::format("d{}", i), shape.dims[i], AxisRole::parallel});
    operand.dims.push_back({{static_cast<int>(i)}, std::nullopt, 0});
  }
  operand.dtype = shape.dtype;
  t.inputs.assign(count, operand);
  t.outputs = {operand};
  t.flops_per_point = flops_per_point;
  return t;
}

Result<AxisTable> UnaryOperator::axes(const Attributes&, std::span<const Shape> in) const {
  return elementwise_table(in[0], 1, 1);
}
std::vector<Example> UnaryOperator::examples() const {
  return {{{}, {{{4, 6}, DType::f32}}}, {{}, {{{2, 4, 6}, DType::f32}}}};
}

Result<AxisTable> UnaryGradientOperator::axes(const Attributes&, std::span<const Shape> in) const {
  if (in[0] != in[1]) return fail("{}: found operands {} and {}, expected the same shape", name(), to_string(in[0]), to_string(in[1]));
  AxisTable t = elementwise_table(in[0], 2, 1);
  t.inputs[1].linear = true;
  t.linearity = Linearity::multilinear;
  return t;
}
std::vector<Example> UnaryGradientOperator::examples() const {
  return {{{}, {{{4, 6}, DType::f32}, {{4, 6}, DType::f32}}}};
}

}  // namespace unity
