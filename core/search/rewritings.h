// What the algebraic rules of a library make of a state: one application each, those with the least work first.
#pragma once

#include <optional>
#include <vector>

#include "core/rewrite/match.h"
#include "core/search/search.h"
#include "core/search/substitution.h"

namespace unity {

// RewritingGains (substitution.h): by how much rules change the work of a graph (work_estimate.h), in picoseconds, by
// rule and what it finds at a match; none where it does not apply. Most matches of a search have been seen before: at
// another layer, or in a state that was changed elsewhere. For one library and kind of device.

// A state that a move leads to, or why there is none.
struct Reached {
  std::optional<State> state;
  LeftOut why_not = LeftOut::refused;
};

// One for each match of a rule; of those with the least work, the first few have a state. A library knows many
// equations that only move work about; scoring all of them would leave no budget for anything else. Where rules' gains
// are known, only those few are applied. `matches`: where to leave those that were found, for states that follow.
std::vector<Reached> rewritings(const State& state, const SubstitutionOptions& options, Evaluator& evaluator,
                                RewritingGains& gains, GraphMatches* matches = nullptr);

// Of these, those that rewritings() applies.
PreparedRules prepare_algebraic(const std::vector<Rule>& rules);

// The rule applied there, in normal form.
Result<State> rewrite(const State& state, const Move& move, const Rule& rule, const Match& match);

// The library's and the user's; none where there is to be no algebra.
std::vector<Rule> rules_of(const SearchOptions& options);

}  // namespace unity
