// A pair of equal graphs as the two sides of a rule, and its text with chosen attributes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/generate/enumerate.h"
#include "core/rewrite/rule.h"

namespace unity {

struct PairPattern {
  struct Node {
    TermOperator op;
    std::vector<PatternValue> inputs;
    int results = 1;
  };
  std::vector<Node> nodes;  // those of the source first; each side in topological order
  std::size_t source_nodes = 0;
  std::vector<PatternValue> source_outputs, target_outputs;
  std::vector<std::string> values;     // names of the variables, in order of their first use in the source
  std::vector<ParallelShape> layouts;  // of the leaves that stand for them here
};

// None when the target has a leaf that the source has not. `names`: of the leaves, by leaf value.
std::optional<PairPattern> pair_pattern(const TermTable& terms, TermGraph source, TermGraph target,
                                        const std::vector<std::string>& names);

// An attribute of a node of the pattern, as the text of an expression; empty: it is not written (the default).
using AttributeTexts = std::vector<std::vector<std::string>>;  // [node][attribute]

// The attributes as they are; those that have their default are not written.
AttributeTexts literal_attributes(const PairPattern& pattern);

// "rule NAME ...", in the language of rules (core/rewrite/rule_text.h).
std::string rule_text(const PairPattern& pattern, const std::string& name, const AttributeTexts& attributes,
                      const std::vector<std::string>& conditions);

// A name that says what becomes what: "commute_partition_relu", "concat_of_concat_to_concat".
std::string rule_name(const Rule& rule);

// The subject that a rule on these operators belongs to: "matmul", "parallelization", ..
std::string pattern_subject(const Rule& rule);

}  // namespace unity
