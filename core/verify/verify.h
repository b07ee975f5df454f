// Whether a rule is sound: at all shapes, degrees and attributes where both sides are well-typed and its conditions
// hold,
//   (T) the target's results have the parallel shapes of the source's (typing.h), and
//   (L) both sides are the same function of logical tensors (logic.h).
// To apply a rule is to infer the types of its target (core/rewrite/apply.h), and an ill-typed target is no
// application. A rule is *total* when the target is well-typed wherever the source is and the conditions hold; that is
// found besides.
//
// Why that is enough: a well-typed PCG computes the logical function of its erasure, in which partition, combine,
// replicate, reduce, pipeline and batch are the identity and stack_partials is the sum. (The conformance test checks it
// exactly, on every legal sharding of every operator.) So the parallel sides of a rule are equal when their erasures
// are, and what follows them finds the layouts it had.
//
// Both halves are proved by Z3 for each *signature* (signature.h) that sampled instances have: ranks and types, the
// structure of each operator's axis table, and those attributes that decide it. Sizes, degrees, copies, partial sums
// and all other attributes are symbols. A verdict is relative to the axioms, each of which is checked exactly on small
// tensors (check_axioms.h), and to the signatures: those for which a rule is proved go on record, and it applies
// nowhere else (core/rewrite/apply.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/rewrite/instance.h"
#include "core/rewrite/proof.h"
#include "core/rewrite/rule.h"

namespace unity {

enum class Verdict : std::uint8_t {
  proved,
  refuted,    // results differ, or have other parallel shapes: see counterexample
  ill_typed,  // no instance of the source is well-typed, or no target of one (with degrees above 1)
  unknown,    // neither: not to be used
};
std::string_view to_string(Verdict verdict);

struct VerifyOptions {
  double seconds = 5;      // for each question to Z3; the limit is on its steps, so that verdicts repeat
  std::uint64_t seed = 1;  // of the instances
  int instances = 24;      // how many are sampled where both sides are well-typed; three times as many at most
  // Graphs in which the rule occurs, with parameters as it was applied there: proved, where possible, like sampled
  // instances, but not evaluated, since they may be large. Those of no signature that is proved are left out.
  std::vector<const Pcg*> graphs;
};

struct Verification {
  Verdict verdict = Verdict::unknown;
  std::string why;      // of every verdict but proved: subject, found, expected
  bool total = false;   // of a proved rule
  std::string partial;  // of one that is not total: what keeps a target from being well-typed
  ProofRecord record;   // of a proved rule
  std::optional<RuleInstance>
      counterexample;  // the smallest one found, of a refuted rule; an ill-typed one has no target
};

// Refutes by evaluation, else proves. Thread-safe: each call has a Z3 context of its own.
Verification verify(const Rule& rule, const VerifyOptions& options = {});

// The prover alone: it looks at no value, and at no instance but for its signature. Tests check on wrong rules that it
// proves none of them.
Verification prove(const Rule& rule, const VerifyOptions& options = {});

// "Z3 4.8.12"
std::string prover_version();

}  // namespace unity
