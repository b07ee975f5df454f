// What a search has done, as charts: of one that is over, or still goes on.
#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.h"
#include "core/report/chart.h"
#include "core/search/search.h"

namespace unity::report {

SearchState state_of(const Plan& plan);

std::string in_words(LeftOut reason);  // "too many tasks"

Chart best_so_far_chart(const SearchState& state, bool over_seconds);
Chart reasons_chart(const SearchState& state);  // candidates scored, and left out by reason
Chart levels_chart(const SearchState& state);   // processor time by level

}  // namespace unity::report
