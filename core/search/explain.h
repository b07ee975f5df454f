// A plan in words: per repeated block, how its operators are parallelised, then the rules that led there.
#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.h"

namespace unity {

// How one operator is cut, in the field's words: "12-way data", "6-way by head", "6-way by output", "2-way by
// reduction", "4-way sequence", "on 6 copies". Empty for serial operators.
std::vector<std::string> parallelism_in_words(const Pcg& pcg, NodeId node);

struct BlockExplanation {
  std::string block;                   // "encoder.*.attention": the label's prefix, indices replaced
  int count = 1;                       // how many blocks read the same
  std::vector<std::string> sentences;  // "query, key, value: 2-way data, 6-way by output"
};
std::vector<BlockExplanation> explain_blocks(const Pcg& pcg);

// Derivation steps with equal rule and degree at corresponding places of repeated blocks, counted.
struct RuleSummary {
  std::string rule;
  int degree = 0;
  std::string where;  // indices replaced
  int count = 1;
};
std::vector<RuleSummary> summarise_derivation(const Plan& plan);

// The whole explanation as text.
std::string explain_plan(const Plan& plan);

// "encoder.3.attention" -> "encoder.*.attention"
std::string without_indices(const std::string& label);

}  // namespace unity
