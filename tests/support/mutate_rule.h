// Rules with one mistake: most of them wrong.
#pragma once

#include <optional>

#include "core/base/random.h"
#include "core/rewrite/rule.h"

namespace unity::test {

// One change to the target or the conditions: a wrong axis, degree or attribute, a dropped operator, swapped operands,
// another variable, another parallelization operator, a dropped or turned condition. None where the draw fits no place.
std::optional<Rule> mutate(const Rule& rule, RandomKey key);

}  // namespace unity::test
