// The rules that come with Unity.
#pragma once

#include <string>
#include <vector>

#include "core/rewrite/proof.h"
#include "core/rewrite/rule.h"

namespace unity {

// rules/NAME.rules and the proofs beside it, as they were when Unity was built.
struct RuleFile {
  std::string name;  // "matmul": the subject
  std::vector<Rule> rules;
  std::vector<ProofRecord> proofs;
};

// By name, without judging whether rules are proved. Without import.rules.
const std::vector<RuleFile>& rule_files();

// What search applies: all rules of rule_files(). InputError where a proof is missing or stale (proof.h).
const std::vector<Rule>& rule_library();

// rules/import.rules: they join what exporters take apart. For `unity import`; searches have no use for them.
const std::vector<Rule>& import_rules();

// The rules of a file of the user's, proved by what stands in `path` with .proofs instead of .rules. InputError as
// above.
std::vector<Rule> load_proved_rules(const std::string& path);
std::string proofs_path(const std::string& rules_path);

}  // namespace unity
