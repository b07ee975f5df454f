// Proofs on record: what core/verify found about a rule, beside the rule's file (rules/NAME.proofs).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/rewrite/rule.h"

namespace unity {

struct ProofRecord {
  std::string rule;                 // its name
  Hash rule_hash = 0;               // of its text (hash_rule)
  Hash axioms_hash = 0;             // of what it was proved from (axioms.h)
  std::string prover;               // "Z3 4.8.12"
  double seconds = 0;               // of all its proofs together
  std::string degrees = "all";      // or those for which it is proved: "2, 3, 4"
  std::vector<std::string> shapes;  // ranks of its variables for which it is proved: "x:2 w:2"
  std::vector<Hash> signatures;     // logical ones for which it is proved, sorted (signature.h)
  std::vector<std::string> axioms;  // those that the proofs used: "shard(matmul.k)", "matmul_associative"
  int instances = 0;                // small instances that were evaluated besides, both sides
  bool operator==(const ProofRecord&) const = default;
};

// Of the rule's text: its name, sides and conditions.
Hash hash_rule(const Rule& rule);

// parse_proofs(print(r)) == {r}. Throws InputError "file:line:column: ...".
std::string print(const ProofRecord& record);
std::vector<ProofRecord> parse_proofs(std::string_view text, const std::string& file = "<proofs>");

// The record of this rule. Error says what is wrong with it: missing, or stale because the rule or the axioms changed.
Result<const ProofRecord*> check_proof(const Rule& rule, const std::vector<ProofRecord>& records);

}  // namespace unity
