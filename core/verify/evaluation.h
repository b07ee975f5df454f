// Both sides of a rule at one instance, by value.
#pragma once

#include "core/rewrite/instance.h"

namespace unity {

// Equal results on the same random leaves, computed in `dtype`: exactly, and in f64 up to rounding. Where indices that
// go through other operators (a join of two) leave the range of what the source selects from, they are drawn small;
// the target must not have a smaller range.
bool equal_values(const RuleInstance& instance, DType dtype, std::uint64_t seed);

}  // namespace unity
