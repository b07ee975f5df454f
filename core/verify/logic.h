// That both sides of a rule are the same function of logical tensors, for every size and attribute of one signature:
// from the equations that operators state (core/rewrite/axioms.h) and those derived from their axis tables (schemas.h).
// The source's calls are taken to be well-typed, and so are the target's: that they are is seen of every instance.
#pragma once

#include "core/verify/prover.h"
#include "core/rewrite/signature.h"

namespace unity {

ProofAttempt prove_equality(const Rule& rule, const RuleInstance& instance, const InstanceSignature& signature,
                            const ProofLimit& limit);

}  // namespace unity
