// What the algebraic rules of a library make of a state: one application each, those with the least work first.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "core/rewrite/match.h"
#include "core/search/substitution.h"

namespace unity {

// By how much rules change the work of a graph (work_estimate.h), by rule and what it finds at a match. Most matches of
// a search have been seen before: at another layer, or in a state that was changed elsewhere. For one library and kind
// of device.
using RewritingGains = std::unordered_map<Hash, std::optional<std::int64_t>>;  // picoseconds; none: it does not apply

// A state that a move leads to, or why there is none.
struct Reached {
  std::optional<State> state;
  LeftOut why_not = LeftOut::refused;
};

// One for each match of a rule; of those with the least work, the first few have a state. A library knows many
// equations that only move work about; scoring all of them would leave no budget for anything else. Where rules' gains
// are known, only those few are applied.
std::vector<Reached> rewritings(const State& state, const SubstitutionOptions& options, Evaluator& evaluator,
                                RewritingGains& gains);

// The rule applied there, in normal form.
Result<State> rewrite(const State& state, const Move& move, const Rule& rule, const Match& match);

}  // namespace unity
