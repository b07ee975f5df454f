// What proofs start from: equations between logical tensors that operators state (Operator::axioms) beside what their
// axis tables say.
#pragma once

#include <vector>

#include "core/rewrite/rule.h"

namespace unity {

// Of all operators, in the order of operators.def. Names are unique.
const std::vector<Rule>& operator_axioms();

// Changes with the axioms' text, with any axis table (of operators' examples), and with the schemas that proofs derive
// from the tables: a proof on record holds for one such hash.
Hash axioms_hash();

}  // namespace unity
