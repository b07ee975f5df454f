// Small families for tests of the generator.
#pragma once

#include "core/generate/family.h"

namespace unity {

inline TermOperator term_operator(std::string_view name, Attributes attributes = {}, int operands = 0) {
  const Operator& op = get_operator(name);
  return {&op, complete_attributes(name, op.attributes(), std::move(attributes)).value(),
          operands ? operands : op.arity().min};
}

inline FamilyLeaf serial_leaf(std::string name, Dims dims) {
  return {std::move(name), {serial({std::move(dims), DType::f32})}, 0};
}

// relu and the parallelization operators on one matrix, in all its layouts.
inline Family relu_family() {
  Family family{"relu", {{"x", leaf_layouts({{4, 6}, DType::f32}), 0}}, layout_operators({0, 1}), 3, 1};
  family.operators.push_back(term_operator("relu"));
  return family;
}

}  // namespace unity
