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

Result<AxisTable> broadcast_table(std::string_view op, std::span<const Shape> in, std::size_t typed) {
  std::size_t rank = 0;
  for (const Shape& shape : in) rank = std::max(rank, shape.dims.size());
  AxisTable t;
  t.inputs.resize(in.size());
  OperandAxes out;
  for (std::size_t d = 0; d < rank; ++d) {
    // The size of an operand in the result's dimension d; 0 where it lacks that dimension.
    auto size_in = [&](std::size_t operand) {
      std::size_t missing = rank - in[operand].dims.size();
      return d < missing ? 0 : in[operand].dims[d - missing];
    };
    std::size_t largest = 0;
    for (std::size_t i = 1; i < in.size(); ++i)
      if (size_in(i) > size_in(largest)) largest = i;
    std::int64_t size = size_in(largest);
    int axis = add_axis(t, fmt::format("d{}", d), size, AxisRole::parallel);
    out.dims.push_back(walk({axis}));
    for (std::size_t i = 0; i < in.size(); ++i) {
      std::int64_t own = size_in(i);
      if (own != size && own > 1)
        return fail(
            "{}: dimension {} of the result is {} in operand {} ({}) but {} in operand {} ({}), expected equal or 1",
            op, d, size, largest, to_string(in[largest]), own, i, to_string(in[i]));
      if (own != 0) t.inputs[i].dims.push_back(own == size ? walk({axis}) : walk({}));
    }
  }
  for (std::size_t i = 0; i < in.size(); ++i) t.inputs[i].dtype = in[i].dtype;
  out.dtype = in[typed].dtype;
  t.outputs = {out};
  return t;
}

std::vector<Example> broadcast_examples() {
  return {{{}, {{{4, 6}, DType::f32}, {{4, 6}, DType::f32}}},
          {{}, {{{2, 4, 6}, DType::f32}, {{6}, DType::f32}}},
          {{}, {{{4, 1, 6}, DType::f32}, {{2, 1}, DType::f32}}},
          {{}, {{{}, DType::f32}, {{4, 6}, DType::f32}}}};
}

Result<AxisTable> BroadcastOperator::axes(const Attributes&, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  AxisTable t = UNITY_TRY(broadcast_table(name(), in));
  for (std::size_t i : {0, 1}) t.inputs[i].linear = linear_in(i);
  t.linearity = linearity();
  return t;
}
std::vector<Example> BroadcastOperator::examples() const { return broadcast_examples(); }

std::int64_t broadcast_position(const Dims& operand, const Dims& index) {
  std::int64_t p = 0;
  std::size_t missing = index.size() - operand.size();
  for (std::size_t d = 0; d < operand.size(); ++d) p = p * operand[d] + (operand[d] == 1 ? 0 : index[missing + d]);
  return p;
}

}  // namespace unity
