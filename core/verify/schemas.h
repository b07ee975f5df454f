// Equations that an axis table says, as axioms in text form, for one call and all of its structure:
//
//   shard(op.axis)    op(concat(i, x, x'), u) = concat(j, op(x, u), op(x', u))    an axis that results walk
//                     op(concat(i, x, x'), concat(k, u, u')) = add(op(x, u), op(x', u'))   one that is summed away
//                     (both with any number of groups, in which the parts interleave)
//   linear(op.i)      op(add(x, x'), u) = add(op(x, u), op(x', u)),  op(scale(f, x), u) = scale(f, op(x, u))
//   pointwise(op)     op(transpose(p, x), transpose(p, y)) = transpose(p, op(x, y)), and for reshape, slice
//   nested(op)        concat of more than four by twos; the parts of a split in more than four, joined
//
// Only where a dimension walks the axis alone. An operator may depend on more than its table says (where an element
// stands, how many there are: causal masks, means), so each equation is evaluated exactly before it is taken for one,
// also at other values of whole-number attributes under which the table stays the same.
#pragma once

#include <string>
#include <vector>

#include "core/rewrite/rule.h"

namespace unity {

struct Schema {
  std::string name;  // "shard(matmul.n)"
  Rule axiom;        // attribute variable i of the call is named "a<i>"
  // By attribute variable of the axiom: which attribute of the call it is, or -1 (any value).
  std::vector<int> attributes;
  // Attributes of the call on whose values it depends, though the table does not (a causal mask): it holds for those of
  // this call alone.
  std::vector<int> at_values;
};

// Of a well-typed call with these attributes and operands, on logical tensors.
const std::vector<Schema>& schemas_of(const Operator& op, const Attributes& attributes,
                                      const std::vector<Shape>& inputs);

// The equations that evaluation refuted.
const std::vector<Schema>& refuted_schemas_of(const Operator& op, const Attributes& attributes,
                                              const std::vector<Shape>& inputs);

}  // namespace unity
