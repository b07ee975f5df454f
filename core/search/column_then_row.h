// Megatron-LM's pattern (Shoeybi et al., 2019) as moves.
#pragma once

#include <functional>

#include "core/search/substitution.h"

namespace unity {

// Shards by `degree` every class of axes that starts as output columns of matmuls and ends as the reduction of a
// matmul, so that it needs no communication but one reduction of the result; where a matmul is split already, its other
// side stays whole. With `uneven`, parts may differ by an element where the degree does not divide. `allowed`: only
// classes of these kinds (parallelism.h); empty: of all. Error when there is no such class, or when `stop` says so: of
// a graph with thousands of layers it takes long.
Result<State> column_then_row(const State& state, int degree, int devices, bool uneven = false,
                              const std::vector<std::string>& allowed = {}, const std::function<bool()>& stop = {});

}  // namespace unity
