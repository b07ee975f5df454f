// What proofs start from: equations between logical tensors that operators state (Operator::axioms) beside what their
// axis tables say.
#pragma once

#include <vector>

#include "core/rewrite/rule.h"

namespace unity {

// Of all operators, in the order of operators.def. Names are unique.
const std::vector<Rule>& operator_axioms();

// Of what a proof of the rule stands on: the axis tables (on examples) and axioms of the operators that occur in the
// rule and in the axioms that the proof used (by name; "schema(operator.axis)" for those derived from tables), and the
// schemas themselves. A proof on record holds for one such hash; what it does not touch may change.
Hash axioms_hash(const Rule& rule, const std::vector<std::string>& used);

}  // namespace unity
