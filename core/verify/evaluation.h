// Both sides of a rule at one instance, by value.
#pragma once

#include "core/graph/evaluate.h"
#include "core/rewrite/instance.h"

namespace unity {

// Equal results on the same random leaves, computed in `dtype`: exactly, and in f64 up to rounding. Where indices that
// go through other operators (a join of two) leave the range of what the source selects from, they are drawn small;
// the target must not have a smaller range.
bool equal_values(const RuleInstance& instance, DType dtype, std::uint64_t seed);

// Equal outputs of two graphs in f64, up to rounding; what is no number has to be none in both. Where no output is
// finite, on positive leaves, and on larger ones: where logarithms and roots are defined.
bool equal_reals(const Pcg& source, const Pcg& target, LeafValues leaves, const EvaluateOptions& options);

}  // namespace unity
