// Finding the matches of many rules in a graph that differs little from one whose matches are known: what lies in
// surroundings that did not change is carried over, and only near a change rules are matched anew.
//
// Nothing is assumed about how one graph came from the other. Nodes are paired by origin and operator; a node counts as
// unchanged where its pair has the same attributes, operands and users, by pairs, operands of the same shapes, and the
// same results are outputs of the graph. A match depends on its nodes, and what matching looks at besides lies as near
// to its root; so a root keeps its matches where all nodes within the rule's reach are unchanged. Pairs may be chosen
// badly, which costs time; what is found is the same.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/rewrite/match.h"

namespace unity {

// Where the nodes lie on which it depends whether, and how, a rule matches at a root.
struct RuleReach {
  enum class Where : std::uint8_t {
    below,    // operands, their operands, ..
    around,   // users as well: where further outputs of the source are looked for
    anywhere  // a further output has no operand in common with those before
  };
  Where where = Where::below;
  int steps = 0;         // from the root to the farthest
  bool layouts = false;  // conditions read degrees, copies or summands, too; else only logical shapes matter
  bool operator==(const RuleReach&) const = default;
};
RuleReach reach_of(const Rule& rule);

// Rules, prepared to be matched in many graphs. They must outlive it.
class PreparedRules {
 public:
  explicit PreparedRules(
      const std::vector<Rule>& rules,
      const std::function<bool(const Rule&)>& wanted = [](const Rule&) { return true; });

  struct Prepared {
    int number;  // among all rules
    SourcePattern pattern;
    RuleReach reach;
    std::vector<int> operators;  // of the source, by number; the root's first
  };
  const std::vector<Prepared>& rules() const { return rules_; }  // the wanted ones
  const std::vector<const Operator*>& operators() const { return operators_; }

 private:
  std::vector<Prepared> rules_;
  std::vector<const Operator*> operators_;  // by number: all that occur in sources
};

// By position in PreparedRules::rules(): what find_matches() gives for each.
struct GraphMatches {
  std::vector<Match> all;
  std::vector<std::size_t> ends;
  std::size_t carried = 0;  // how many of them were not found anew

  std::span<const Match> of(std::size_t rule) const {
    std::size_t begin = rule == 0 ? 0 : ends[rule - 1];
    return std::span(all).subspan(begin, ends[rule] - begin);
  }
};

GraphMatches find_matches(const MatchIndex& index, const PreparedRules& rules);

// The same, from those of another graph.
GraphMatches find_matches(const MatchIndex& index, const PreparedRules& rules, const Pcg& other,
                          const GraphMatches& of_other);

}  // namespace unity
