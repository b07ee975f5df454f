// A normal form of element-wise arithmetic: sums, differences, products, quotients, multiples, shifts and small powers
// as one polynomial over opaque values, with rational coefficients and whole (also negative) exponents, and the values
// by which is divided, which must not be zero. Two sides of the same normal form and of the same sizes are the same
// function of logical tensors: each element of a result is the polynomial of one element of each opaque value, and
// numpy's broadcasting of a broadcast is the broadcasting of the whole.
//
// One-way: sides of different normal forms may yet be equal. Attributes are numbers of unknown value; results of other
// operators are opaque, equal for equal operands. Sizes are equal where the axis tables of the signature say so.
#pragma once

#include "core/rewrite/signature.h"

namespace unity {

// Whether both sides have the same normal forms, where all calls of the signature are well-typed. The opaque calls of
// both sides are then the same, so neither has a value where the other one has none.
bool same_normal_forms(const Rule& rule, const RuleInstance& instance, const InstanceSignature& signature);

}  // namespace unity
