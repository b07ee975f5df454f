// A plan in words: per repeated block, how its operators are parallelised, then the rules that led there.
#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.h"

namespace unity {

// How one operator is cut, in the field's words: "12-way data", "6-way by head", "6-way by output", "2-way by
// reduction", "4-way sequence", "on 6 copies". Empty for serial operators.
std::vector<std::string> parallelism_in_words(const Pcg& pcg, NodeId node);

// A repeated block is what stands under one index ("encoder.3"), else the first part of the labels ("head"). Its
// sentences go by the next part of the labels: "attention: 12-way data", or operator by operator where they differ.
struct BlockExplanation {
  std::string block;                   // "encoder.*", of one alone "encoder.0"
  int count = 1;                       // how many blocks read the same
  std::vector<std::string> sentences;  // "ffn: in.matmul, gelu: 6-way by output; out.matmul: 6-way by reduction"
};
std::vector<BlockExplanation> explain_blocks(const Pcg& pcg);

// Operators that are computed by the same devices, in the order in which sets of devices come up.
struct PlaceExplanation {
  std::vector<int> devices;  // ascending
  int operators = 0;
  std::string first, last;  // labels
};
std::vector<PlaceExplanation> explain_places(const Plan& plan);

// Derivation steps by rule and degree, in the order of their first use, with the places (indices replaced).
struct RuleSummary {
  std::string rule;
  int degree = 0;
  int count = 0;
  std::vector<std::string> places;
};
std::vector<RuleSummary> summarise_derivation(const Plan& plan);

// The whole explanation as text.
std::string explain_plan(const Plan& plan);

// "encoder.3.attention" -> "encoder.*.attention"
std::string without_indices(const std::string& label);

}  // namespace unity
