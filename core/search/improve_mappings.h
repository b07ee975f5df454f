// What the mapping search does not see, it adding up pieces: what runs at the same time as something else. So the
// mappings of the best graphs are improved step by step, as long as the simulation finds them faster: an operator's
// mapping, then those of two at once; then the order of operators that do not wait for one another.
#pragma once

#include <vector>

#include "core/search/substitution.h"

namespace unity {

// By scoring no more than so many candidates; the fastest first then.
void improve_mappings(std::vector<Found>& found, Evaluator& evaluator, std::int64_t most);

}  // namespace unity
