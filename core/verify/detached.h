// Rules with values through which no gradient flows (Operator::detached). Equal functions have equal derivatives, but
// what differentiation makes of a detached value is not its derivative: `reduce_max(x) => reduce_max(x, detached=1)` is
// an equation that training must not use. A rule may detach a value when its sides are equal whatever that value is, as
// log(sum(exp(x - m))) + m is for every m: then its derivative by m is zero, and nothing is lost.
#pragma once

#include "core/rewrite/instance.h"

namespace unity {

// Whether both sides are equal, within rounding, with random numbers in the place of each detached value (the same for
// the same value on both sides). True where nothing is detached.
bool equal_when_detached(const RuleInstance& instance, std::uint64_t seed);

}  // namespace unity
