// Applying rules until none applies.
#pragma once

#include <vector>

#include "core/rewrite/rule.h"

namespace unity {

// The graph after applying the rules, first to last, each wherever it matches, again until nothing changes. Rules that
// are ill-typed at a place are passed over there. CHECKs that it ends: each step must make the graph smaller or leave
// it as large as it is.
Pcg simplify(Pcg pcg, const std::vector<Rule>& rules);

}  // namespace unity
