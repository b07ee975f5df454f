#include "core/ops/elementwise.h"

#include <algorithm>

#include "core/ops/define.h"

namespace unity {

AxisTable elementwise_table(const Shape& shape, std::size_t count, double flops_per_point) {
  AxisTable t;
  OperandAxes operand;
  walk_dims(t, operand, shape.dims, 0, shape.dims.size(), AxisRole::parallel);
  operand.dtype = shape.dtype;
  t.inputs.assign(count, operand);
  t.outputs = {operand};
  t.flops_per_point = flops_per_point;
  return t;
}

Result<AxisTable> UnaryOperator::axes(const Attributes&, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  return elementwise_table(in[0], 1, flops_per_point());
}
std::vector<Example> UnaryOperator::examples() const {
  return {{{}, {{{4, 6}, DType::f32}}}, {{}, {{{2, 4, 6}, DType::f32}}}};
}

Result<AxisTable> UnaryGradientOperator::axes(const Attributes&, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  if (in[0] != in[1])
    return fail("{}: found operands {} and {}, expected the same shape", name(), to_string(in[0]), to_string(in[1]));
  AxisTable t = elementwise_table(in[0], 2, flops_per_point());
  t.inputs[1].linear = true;
  t.linearity = Linearity::multilinear;
  return t;
}
std::vector<Example> UnaryGradientOperator::examples() const {
  return {{{}, {{{4, 6}, DType::f32}, {{4, 6}, DType::f32}}}, {{}, {{{2, 4, 6}, DType::f32}, {{2, 4, 6}, DType::f32}}}};
}

Result<AxisTable> BroadcastOperator::axes(const Attributes&, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  std::size_t rank = std::max(in[0].dims.size(), in[1].dims.size());
  // The size of an operand in the result's dimension d; 0 where it lacks that dimension.
  auto size_in = [&](std::size_t operand, std::size_t d) {
    std::size_t missing = rank - in[operand].dims.size();
    return d < missing ? 0 : in[operand].dims[d - missing];
  };
  AxisTable t;
  t.inputs.resize(2);
  OperandAxes out;
  for (std::size_t d = 0; d < rank; ++d) {
    std::int64_t a = size_in(0, d), b = size_in(1, d);
    if (a != b && a > 1 && b > 1)
      return fail(
          "{}: dimension {} of the result is {} in operand 0 ({}) but {} in operand 1 ({}), expected equal or 1",
          name(), d, a, to_string(in[0]), b, to_string(in[1]));
    std::int64_t size = std::max(a, b);
    int axis = add_axis(t, fmt::format("d{}", d), size, AxisRole::parallel);
    out.dims.push_back(walk({axis}));
    if (a != 0) t.inputs[0].dims.push_back(a == size ? walk({axis}) : walk({}));
    if (b != 0) t.inputs[1].dims.push_back(b == size ? walk({axis}) : walk({}));
  }
  out.dtype = t.inputs[0].dtype = t.inputs[1].dtype = in[0].dtype;
  t.inputs[0].linear = t.inputs[1].linear = true;
  t.linearity = linearity();
  t.outputs = {out};
  return t;
}
std::vector<Example> BroadcastOperator::examples() const {
  return {{{}, {{{4, 6}, DType::f32}, {{4, 6}, DType::f32}}},
          {{}, {{{2, 4, 6}, DType::f32}, {{6}, DType::f32}}},
          {{}, {{{4, 1, 6}, DType::f32}, {{2, 1}, DType::f32}}},
          {{}, {{{}, DType::f32}, {{4, 6}, DType::f32}}}};
}

std::int64_t broadcast_position(const Dims& operand, const Dims& index) {
  std::int64_t p = 0;
  std::size_t missing = index.size() - operand.size();
  for (std::size_t d = 0; d < operand.size(); ++d) p = p * operand[d] + (operand[d] == 1 ? 0 : index[missing + d]);
  return p;
}

}  // namespace unity
