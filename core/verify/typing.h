// That the target of a rule has the source's parallel shapes, for every degree and size of one signature.
//
// What well-typedness asks for (core/ops/parallel_shape.cpp, core/ops/parallelization.cpp) are equalities and
// divisibilities of *monomials* in degrees, copies and partial sums, and `degree <= size`. An equality or divisibility
// of positive monomials holds exactly when it holds for the exponent of every prime, a monomial's exponent is linear in
// those of its factors, and constraints of different primes do not meet: so one prime, with unknown exponents >= 0,
// stands for all (and each prime in a literal once more, by itself). An inequality becomes one of logarithms, linear in
// real numbers >= 0; of a sum is known that it is at least each summand, and divisible by what divides all of them.
// Linear arithmetic decides these questions: nothing is left to search. What elimination shows (elimination.h) is not
// asked.
//
// What the source asks for and the rule's conditions are what a proof assumes (a condition that is not of these kinds
// is not assumed). To apply a rule is to infer the target's types, and an ill-typed target is no application; so what
// the target asks for is assumed too, and what is shown is that the results agree. Whether it *follows* that the target
// is well-typed is found besides, when it is asked for (it takes longer): then the rule is total, and no application is
// refused for its types. Parameters are positive.
#pragma once

#include "core/rewrite/signature.h"
#include "core/verify/prover.h"

namespace unity {

struct TypingProof : ProofAttempt {
  bool total = false;   // when it was asked for
  std::string partial;  // what does not follow then, of a rule that is not total
};
TypingProof prove_typing(const Rule& rule, const RuleInstance& instance, const InstanceSignature& signature,
                         const ProofLimit& limit, bool ask_total);

}  // namespace unity
