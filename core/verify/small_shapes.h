// All small instances of an axiom: every shape with dimensions of at most four elements (fewer where there are too many
// dimensions), and attributes from small domains, at which its left side is well-typed and its conditions hold. Ranks
// are those at which it is well-typed with equal sizes, all 1, 2, 3 or 4.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/rewrite/instance.h"

namespace unity {

struct SmallShapes {
  int max_rank = 4;
  std::int64_t candidates = 1024;  // shapes of one choice of ranks: what decides the largest size, 4, 3 or 2
};

// Calls `visit(variables, attributes)` for each; stops when that returns false. `bound`: attributes that are given.
// Returns how many choices of shapes were tried.
std::int64_t for_each_small_instance(
    const Rule& axiom, const std::vector<std::optional<AttributeValue>>& bound, const SmallShapes& limits,
    const std::function<bool(const std::vector<ParallelShape>&, const std::vector<AttributeValue>&)>& visit);

}  // namespace unity
