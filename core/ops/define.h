// For operator sources only: registration, checks of operands, and the tools to write reference evaluators.
#pragma once

#include "core/ops/operator.h"
#include "core/ops/reference.h"

// Defines the function that operators.def promises.
#define UNITY_DEFINE_OPERATOR(op_name, Class) \
  const Operator& op_name##_operator() {      \
    static const Class op(#op_name);          \
    return op;                                \
  }

namespace unity {

// Error unless every operand has the element type of operand 0, and that is not an index type.
Result<void> expect_real(std::string_view op, std::span<const Shape> inputs);
// Error unless operand `operand` holds indices (i32).
Result<void> expect_indices(std::string_view op, std::span<const Shape> inputs, std::size_t operand);
// Error unless attribute `index`, a switch, is 0 or 1.
Result<void> expect_flag(const Operator& op, const Attributes& attributes, std::size_t index);
// Error unless operand `operand` has at least `rank` dimensions.
Result<void> expect_rank(std::string_view op, std::span<const Shape> inputs, std::size_t operand, std::size_t rank);

// Appends an axis and returns its index.
int add_axis(AxisTable& table, std::string name, std::int64_t size, AxisRole role);
// A dimension that walks the given axes, major to minor.
inline DimAxes walk(std::vector<int> axes) { return {std::move(axes), std::nullopt, 0}; }
// Appends one axis "d0", "d1", .. for each of the dimensions [first, last) and a dimension to `operand` that walks it.
void walk_dims(AxisTable& table, OperandAxes& operand, const Dims& dims, std::size_t first, std::size_t last,
               AxisRole role);

}  // namespace unity
