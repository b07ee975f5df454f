// Replacing a match of a rule's source by its target.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/rewrite/match.h"

namespace unity {

// Values of a rule's parameters, by name.
using Parameters = std::map<std::string, std::int64_t>;

// The graph with the match replaced; shapes of all that follows are inferred anew, ids are compact. Error when a
// parameter is missing or unknown, a condition does not hold, a proved rule has no proof on record for what it meets
// here (signature.h), the target or anything after it is ill-typed, a result of
// the target has another logical shape than that of the source, an output of the graph would be laid out otherwise
// (more copies are allowed), a weight or state that outputs depend on would be left out or not be written any more, the
// rule holds of values alone where some are equal (maxima of maxima) and a gradient flows through them, or the graph
// would become cyclic. A target operator inherits origin and label of the
// matched operator of the same kind (in text order), else those of the match's root; parallelization operators take
// them from the operator whose value they lay out.
Result<Pcg> apply(const Pcg& pcg, const Rule& rule, const Match& match, const Parameters& parameters);

// The choices of parameters, all from the candidates, under which the rule's conditions hold. One empty choice for a
// rule without parameters. In lexicographic order.
std::vector<Parameters> parameter_choices(const Pcg& pcg, const Rule& rule, const Match& match,
                                          const Integers& candidates);

}  // namespace unity
