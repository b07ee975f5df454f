// Finding the places where a rule's source occurs.
#pragma once

#include <map>
#include <vector>

#include "core/rewrite/rule.h"

namespace unity {

struct Match {
  std::vector<NodeId> nodes;                              // by source node of the rule
  std::vector<ValueRef> values;                           // by value variable
  std::vector<std::optional<AttributeValue>> attributes;  // by attribute variable; parameters are empty
  NodeId top;                                             // the node of the source's first output

  NodeId root() const { return top; }
  bool operator==(const Match&) const = default;
};

// What finding matches needs to know about a graph, whichever the rule. The graph must outlive it.
struct MatchIndex {
  explicit MatchIndex(const Pcg& graph);
  const Pcg& pcg;
  std::vector<std::vector<Pcg::Use>> uses;
  std::map<const Operator*, std::vector<NodeId>> nodes;  // by operator, in order
};

// What finding matches needs to know about a rule, whichever the graph. The rule must outlive it.
struct SourcePattern {
  explicit SourcePattern(const Rule& rule);
  const Rule& rule;
  std::vector<const Operator*> operators;             // of the source, each once
  std::vector<std::vector<AttributeValue>> defaults;  // by source node: of its attributes

  const Operator* root() const { return rule.nodes[static_cast<std::size_t>(rule.source_outputs[0].node)].op; }
};

// All matches, in a fixed order: by the node of the first source output, then by those of the further ones. A variable
// stands for one value throughout; different pattern nodes stand for different nodes; commutative operators match with
// both operand orders; results inside the match that are not outputs of the rule are used nowhere else; all conditions
// that do not depend on parameters hold. Whether the target is well-typed shows when it is applied.
std::vector<Match> find_matches(const MatchIndex& index, const Rule& rule);
std::vector<Match> find_matches(const Pcg& pcg, const Rule& rule);  // of one rule alone

// Appends those whose root is this node, in the order that they have among all. All operators of the source must occur.
void find_matches_at(const MatchIndex& index, const SourcePattern& pattern, NodeId root, std::vector<Match>& found);

}  // namespace unity
