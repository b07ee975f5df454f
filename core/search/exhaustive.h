// The whole space of a small graph (exhaustive.cpp), as tests ask for it.
#pragma once

#include "core/search/strategy.h"

namespace unity {

// `prune`: plans of which one device alone computes for as long as the best one takes (busy_bound.h) are not scored.
// The plan is the same.
Result<Outcome> score_all(const StrategyInput& input, bool prune);

}  // namespace unity
