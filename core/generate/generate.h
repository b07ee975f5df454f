// Rule synthesis: all graphs of the declared families up to their sizes, in classes of equal graphs; all pairs within a
// class; each pair that the rules so far do not derive becomes a general rule, is proved, and joins them. Pairs are
// taken by size, so that what follows from smaller rules never becomes one.
//
//   GenerateOptions options;
//   options.prove = [](const Rule& rule) { ... };   // core/verify
//   GenerateResult result = generate(options);
//   write_rules(result, "core/rewrite/rules");
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/generate/family_graphs.h"

namespace unity {

struct ProofOutcome {
  bool proved = false;
  std::string why;     // of what is not proved
  bool wrong = false;  // it was refuted, not just not proved
};

struct GenerateOptions {
  std::optional<std::vector<Family>> families;  // absent: default_families()
  std::vector<Rule> given;  // proved rules that are there already, which none of the kept ones repeats
  bool sharding = true;     // how every operator may be split, too (sharding.h)
  int steps = 3;            // applications of kept rules that make a pair a derived one
  int jobs = 0;             // threads; 0: one for each core. The result is the same for any number
  std::uint64_t seed = 1;   // of random instances
  int instances = 32;       // that a form of a rule must stand
  // Finished candidates are written there and not worked on again; empty: nowhere.
  std::string resume_directory;
  Hash proofs = 0;  // of what proofs depend on: what was finished with others is worked on again
  // Called after each round, from the calling thread: a line about what is being done.
  std::function<void(const std::string&)> progress;
  // Whether the rule is sound, for all sizes and degrees. Absent: rules are tested on instances alone, and stay
  // unproved. Called from several threads.
  std::function<ProofOutcome(const Rule&)> prove;
};

struct GeneratedRule {
  Rule rule;
  std::string family;   // where it was found; "sharding"
  std::string subject;  // the file that it belongs to: "matmul"
  int size = 0;         // operators of both sides together, in the pair that it stems from
};

struct RejectedCandidate {
  std::string text;  // the pair as a rule, or the general rule that could not be proved
  std::string family;
  std::string why;
};

struct FamilyReport {
  std::string family;
  EnumerationCounts enumeration;
  std::array<std::int64_t, kPairFates> pairs{};  // ordered pairs by PairFate, with the final rules
  std::int64_t nonlinear_derived = 0;            // of the nonlinear ones
};

struct GenerateResult {
  std::vector<GeneratedRule> kept;
  std::vector<RejectedCandidate> contradicted;  // no general form stood its instances
  std::vector<RejectedCandidate> disproved;     // proved, and yet wrong on some graph: the prover has a fault
  std::vector<RejectedCandidate> unproved;      // stood them, but no proof was found
  std::vector<FamilyReport> families;
  std::int64_t shardings = 0;      // pairs of sharding.h
  std::int64_t candidates = 0;     // distinct pairs, as rules of degree 2, that were not derived when they were met
  std::int64_t derived_later = 0;  // of these: derived by rules that were kept in between
  std::int64_t same_rule = 0;      // of these: their general form was there already
  double seconds = 0;

  // Of the pairs that could be rules (see PairFate), the share that the kept rules derive.
  double completeness() const;
};

GenerateResult generate(const GenerateOptions& options);

// One file for each subject, with the rules in the order in which they were kept. InputError when it can not be
// written.
void write_rules(const GenerateResult& result, const std::string& directory);

}  // namespace unity
