// Where the sizes of an operator's results come from, and which sizes of its operands are equal: read off its axis
// table, and, where the table does not say (a concatenation, a split), found by asking the operator itself at other
// sizes. Like every axiom, each is checked exactly on small shapes (check_axioms.h).
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "core/ops/operator.h"

namespace unity {

struct OperandDim {
  int operand = 0;
  int dim = 0;
  bool operator==(const OperandDim&) const = default;
};

struct SizeSource {
  enum class Kind : std::uint8_t {
    unknown,
    one,
    operand,  // dims[0]
    sum,      // of dims
    element,  // `index` of the list `attribute`
  };
  Kind kind = Kind::unknown;
  std::vector<OperandDim> dims;
  int attribute = -1;
  int index = -1;
};

struct ShapeFacts {
  std::vector<std::vector<SizeSource>> outputs;             // by output and dimension
  std::vector<std::pair<OperandDim, OperandDim>> required;  // equal in every well-typed call of these ranks
  std::vector<std::pair<OperandDim, OperandDim>> aligned;   // equal in calls of this structure (not broadcast)
  std::vector<OperandDim> ones;                             // of size 1 in this structure (broadcast)
};

// Of a well-typed call: `table` is op.axes(attributes, inputs).
ShapeFacts shape_facts(const Operator& op, const Attributes& attributes, std::span<const Shape> inputs,
                       const AxisTable& table);

}  // namespace unity
