// That both sides of a rule are the same function of logical tensors, for every size and attribute of one signature:
// from the equations that operators state (core/rewrite/axioms.h) and those derived from their axis tables (schemas.h).
// The source's calls are taken to be well-typed, and so are the target's, for an ill-typed target is not applied; but
// not that indices are in range there.
#pragma once

#include <memory>

#include "core/rewrite/signature.h"
#include "core/verify/prover.h"

namespace unity {

// One for all signatures of a rule: what was proved for one is often proved for others by the same axioms. Not
// thread-safe; a context of Z3 for each.
class EqualityProver {
 public:
  EqualityProver(const Rule& rule, ProofLimit limit);
  ~EqualityProver();

  ProofAttempt prove(const RuleInstance& instance, const InstanceSignature& signature);

 private:
  class Impl;
  const Rule& rule_;
  ProofLimit limit_;
  std::unique_ptr<Impl> impl_;  // none until it is needed
};

}  // namespace unity
