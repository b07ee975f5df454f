// What complete plans communicate, hidden behind what does not wait for it: an attribute of the plan
// (core/plan/overlap.h), of as many micro-batches at once as is fastest.
#pragma once

#include <set>
#include <vector>

#include "core/search/strategy.h"

namespace unity {

// Whether operators wait for communications in the forward or backward pass, so that there is something to hide: some
// operator's result is laid out anew for another. (Gradients of weights are summed while the backward pass goes on.)
bool passes_communicate(const Pcg& pcg);

// Variants of the plans that are not much slower than the fastest and fit: gradients of weights behind communications,
// and, of plans without micro-batches, 2 to 4 of these at once. None where the options of the search say what overlaps,
// or on very many devices. Graphs in `seen` are left out, and added to it.
std::vector<Outcome> hide_communications(const std::vector<Outcome>& plans, const StrategyInput& input,
                                         std::set<Hash>& seen);

}  // namespace unity
