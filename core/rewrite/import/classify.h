// What the rules of a file are worth: each is translated, proved or refuted, and looked for in our library.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/rewrite/derivation.h"
#include "core/rewrite/import/translate.h"
#include "core/rewrite/proof.h"

namespace unity {

enum class ImportVerdict : std::uint8_t { proved, refuted, ill_typed, unsupported, unknown };
std::string_view to_string(ImportVerdict verdict);

// What a prover says about a rule (core/verify).
struct Finding {
  ImportVerdict verdict = ImportVerdict::unknown;
  std::string why;                             // of every verdict but proved
  std::string partial;                         // of a proved rule: what keeps some target from being well-typed
  ProofRecord record;                          // of a proved rule
  std::optional<RuleInstance> counterexample;  // of a refuted rule
};
using Prover = std::function<Finding(const Rule&)>;

struct ImportOptions {
  // Rule 7 is imported_7.
  std::string name = "imported";
  int steps = 3;           // of derivations, at most
  int instances = 3;       // at which a rule is derived
  std::uint64_t seed = 1;  // of the instances
  int jobs = 0;            // threads; 0: one for each core. The prover is called on all of them
  std::function<void(std::size_t done, std::size_t all)> progress;
};

struct ImportedRule {
  std::size_t index = 0;
  ImportVerdict verdict = ImportVerdict::unknown;
  std::string why;             // of every verdict but proved
  std::string text;            // in our language, where it can be written
  std::string applies;         // of a proved rule: why it does not apply wherever its source is well-typed, if so
  std::string holds_where;     // of a refuted rule: sizes and groups for which it is proved, if some were found
  std::string counterexample;  // of a refuted rule: both sides as graphs
  std::optional<Rule> rule;
  ProofRecord record;  // of a proved rule
  // Of a proved rule: from its source to its target by rules of the library, at every instance that was tried.
  std::optional<int> steps;
  std::vector<std::string> derivation;  // names; "<NAME": from right to left
  // In the library: one rule does it alone.
  std::string library_rule() const { return steps == 1 ? derivation.at(0) : ""; }
};

std::vector<ImportedRule> classify(const PeerFile& file, const Prover& prover, std::span<const Rule> library,
                                   const ImportOptions& options = {});

}  // namespace unity
