// Rules applied to a plan by hand.
#pragma once

#include <string>
#include <vector>

#include "core/rewrite/apply.h"
#include "gui/session/document.h"

namespace unity::gui {

// Of the library; null: there is none of that name.
const Rule* find_rule(const std::string& name);

// "d=2 e=3"
std::string to_text(const Parameters& parameters);
Result<Parameters> parse_parameters(const std::string& text);

// The plan with the rule applied at a match (of find_matches). Operators that keep their grid keep their mapping, the
// others are mapped from the first device of the match on (of a pipeline, its stage), the last dimension innermost.
// Error: the rule does not apply there, or the result does not fit the machine.
Result<Plan> rewrite_plan(const Plan& plan, const Topology& topology, const Rule& rule, const Match& match,
                          const Parameters& parameters);

}  // namespace unity::gui
