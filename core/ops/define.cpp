#include "core/ops/define.h"

namespace unity {

Result<void> expect_real(std::string_view op, std::span<const Shape> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype == DType::i32)
      return fail("{}: operand {} is {}, expected real numbers", op, i, to_string(inputs[i]));
    if (inputs[i].dtype != inputs[0].dtype)
      return fail("{}: operand {} is {}, expected element type {} as operand 0", op, i, to_string(inputs[i]),
                  to_string(inputs[0].dtype));
  }
  return {};
}

Result<void> expect_indices(std::string_view op, std::span<const Shape> inputs, std::size_t operand) {
  if (inputs[operand].dtype != DType::i32)
    return fail("{}: operand {} is {}, expected indices of type i32", op, operand, to_string(inputs[operand]));
  return {};
}

Result<void> expect_flag(const Operator& op, const Attributes& attributes, std::size_t index) {
  const std::int64_t value = int_attribute(attributes, index);
  if (value == 0 || value == 1) return {};
  return fail("{}: {} is {}, expected 0 or 1", op.name(), op.attributes()[index].name, value);
}

Result<void> expect_rank(std::string_view op, std::span<const Shape> inputs, std::size_t operand, std::size_t rank) {
  if (inputs[operand].dims.size() < rank)
    return fail("{}: operand {} is {}, expected at least {} dimension{}", op, operand, to_string(inputs[operand]), rank,
                rank == 1 ? "" : "s");
  return {};
}

int add_axis(AxisTable& table, std::string name, std::int64_t size, AxisRole role) {
  table.axes.push_back({std::move(name), size, role});
  return static_cast<int>(table.axes.size()) - 1;
}

void walk_dims(AxisTable& table, OperandAxes& operand, const Dims& dims, std::size_t first, std::size_t last,
               AxisRole role) {
  for (std::size_t i = first; i < last; ++i)
    operand.dims.push_back(walk({add_axis(table, fmt::format("d{}", i), dims[i], role)}));
}

}  // namespace unity
