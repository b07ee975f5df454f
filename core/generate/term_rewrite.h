// Rules applied to the graphs of a TermTable, as match.h and apply.h apply them to PCGs, but thousands of times faster:
// pruning and the measure of completeness apply every rule to every graph.
#pragma once

#include <vector>

#include "core/generate/enumerate.h"
#include "core/rewrite/rule.h"

namespace unity {

// The graphs that one application of the rule makes of `graph`. Parameters take the given degrees. Left out are
// applications whose target is ill-typed or has other shapes, and those in which an operand of the match depends on
// another result of it.
std::vector<TermGraph> rewrite_term(TermTable& terms, const Rule& rule, TermGraph graph, const Integers& degrees);

}  // namespace unity
