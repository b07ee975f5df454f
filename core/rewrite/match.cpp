#include "core/rewrite/match.h"

#include <algorithm>

namespace unity {
namespace {

class Matcher {
 public:
  Matcher(const MatchIndex& index, const Rule& rule) : index_(index), pcg_(index.pcg), uses_(index.uses), rule_(rule) {}

  std::vector<Match> run() {
    if (!operators_occur()) return {};
    Match start;
    start.nodes.resize(rule_.source_nodes);
    start.values.resize(rule_.values.size());
    start.attributes.resize(rule_.attributes.size());
    solve(start, {});
    return std::move(found_);
  }

 private:
  struct Goal {
    PatternValue pattern;
    ValueRef value;
  };

  bool operators_occur() const {
    for (std::size_t n = 0; n < rule_.source_nodes; ++n)
      if (!index_.nodes.contains(rule_.nodes[n].op)) return false;
    return true;
  }

  // Solves the goals, last first; then the next source output that is still free; then records the match.
  void solve(Match match, std::vector<Goal> goals) {
    while (!goals.empty()) {
      Goal goal = goals.back();
      goals.pop_back();
      if (goal.pattern.variable >= 0) {
        ValueRef& bound = match.values[static_cast<std::size_t>(goal.pattern.variable)];
        if (bound.node.valid() && bound != goal.value) return;
        bound = goal.value;
        continue;
      }
      auto n = static_cast<std::size_t>(goal.pattern.node);
      if (goal.value.output != goal.pattern.output) return;
      if (match.nodes[n].valid()) {
        if (match.nodes[n] != goal.value.node) return;
        continue;
      }
      if (!bind_node(match, n, goal.value.node)) return;
      const PatternNode& pattern = rule_.nodes[n];
      const std::vector<ValueRef>& inputs = pcg_[goal.value.node].inputs;
      if (inputs.size() == 2 && pattern.op->commutative()) {
        std::vector<Goal> swapped = goals;
        swapped.push_back({pattern.inputs[1], inputs[0]});
        swapped.push_back({pattern.inputs[0], inputs[1]});
        goals.push_back({pattern.inputs[1], inputs[1]});
        goals.push_back({pattern.inputs[0], inputs[0]});
        solve(match, std::move(goals));
        solve(std::move(match), std::move(swapped));
        return;
      }
      for (std::size_t i = inputs.size(); i-- > 0;) goals.push_back({pattern.inputs[i], inputs[i]});
    }
    for (PatternValue output : rule_.source_outputs) {
      if (match.nodes[static_cast<std::size_t>(output.node)].valid()) continue;
      for (NodeId id : candidates(match, output.node)) solve(match, {{output, {id, output.output}}});
      return;
    }
    record(std::move(match));
  }

  // Operator, number of results, attributes; binds the node and the attribute variables that stand alone.
  bool bind_node(Match& match, std::size_t n, NodeId id) const {
    const PatternNode& pattern = rule_.nodes[n];
    const Node& node = pcg_[id];
    if (node.op != pattern.op || node.inputs.size() != pattern.inputs.size() ||
        static_cast<int>(node.outputs.size()) != pattern.results ||
        std::find(match.nodes.begin(), match.nodes.end(), id) != match.nodes.end())
      return false;
    for (std::size_t i = 0; i < pattern.attributes.size(); ++i) {
      const AttributeValue& value = node.attributes[i];
      if (!pattern.attributes[i]) {
        if (value != default_of(*pattern.op, i)) return false;
        continue;
      }
      const Expression& expression = *pattern.attributes[i];
      if (expression.kind == Expression::Kind::constant && value != expression.constant) return false;
      if (expression.kind != Expression::Kind::variable) continue;
      auto& bound = match.attributes[static_cast<std::size_t>(expression.variable)];
      if (bound && *bound != value) return false;
      bound = value;
    }
    match.nodes[n] = id;
    return true;
  }

  static AttributeValue default_of(const Operator& op, std::size_t i) { return op.attributes()[i].fallback; }

  // Where a further output can lie: among the users of an operand that is already bound, else anywhere.
  std::vector<NodeId> candidates(const Match& match, int node) const {
    std::vector<NodeId> ids;
    for (PatternValue input : rule_.nodes[static_cast<std::size_t>(node)].inputs) {
      ValueRef bound;
      if (input.variable >= 0)
        bound = match.values[static_cast<std::size_t>(input.variable)];
      else
        bound = {match.nodes[static_cast<std::size_t>(input.node)], input.output};
      if (!bound.node.valid()) continue;
      for (const Pcg::Use& use : uses_[bound.node.index()])
        if (use.output == bound.output && (ids.empty() || ids.back() != use.user)) ids.push_back(use.user);
      return ids;
    }
    return index_.nodes.at(rule_.nodes[static_cast<std::size_t>(node)].op);
  }

  void record(Match match) {
    match.top = match.nodes[static_cast<std::size_t>(rule_.source_outputs[0].node)];
    if (!expressions_agree(match) || !interior_is_private(match)) return;
    Bindings bindings{pcg_, match.nodes, match.values, match.attributes};
    for (const Condition& condition : rule_.conditions)
      if (!has_unbound(condition, bindings) && !check(condition, rule_, bindings).ok()) return;
    if (std::find(found_.begin(), found_.end(), match) == found_.end()) found_.push_back(std::move(match));
  }

  bool expressions_agree(const Match& match) const {
    Bindings bindings{pcg_, match.nodes, match.values, match.attributes};
    for (std::size_t n = 0; n < rule_.source_nodes; ++n)
      for (std::size_t i = 0; i < rule_.nodes[n].attributes.size(); ++i) {
        const auto& expression = rule_.nodes[n].attributes[i];
        if (!expression || expression->kind == Expression::Kind::variable) continue;
        auto value = evaluate(*expression, rule_, bindings);
        if (!value.ok() || *value != pcg_[match.nodes[n]].attributes[i]) return false;
      }
    return true;
  }

  bool interior_is_private(const Match& match) const {
    auto is_rule_output = [&](int node, int output) {
      return std::any_of(rule_.source_outputs.begin(), rule_.source_outputs.end(),
                         [&](PatternValue v) { return v.node == node && v.output == output; });
    };
    for (std::size_t n = 0; n < rule_.source_nodes; ++n) {
      for (const Pcg::Use& use : uses_[match.nodes[n].index()])
        if (!is_rule_output(static_cast<int>(n), use.output) &&
            std::find(match.nodes.begin(), match.nodes.end(), use.user) == match.nodes.end())
          return false;
      for (ValueRef v : pcg_.outputs())
        if (v.node == match.nodes[n] && !is_rule_output(static_cast<int>(n), v.output)) return false;
    }
    return true;
  }

  const MatchIndex& index_;
  const Pcg& pcg_;
  const std::vector<std::vector<Pcg::Use>>& uses_;
  const Rule& rule_;
  std::vector<Match> found_;
};

}  // namespace

MatchIndex::MatchIndex(const Pcg& graph) : pcg(graph), uses(graph.uses()) {
  for (std::size_t i = 0; i < graph.size(); ++i)
    nodes[graph.nodes()[i].op].push_back(NodeId(static_cast<std::int64_t>(i)));
}

std::vector<Match> find_matches(const MatchIndex& index, const Rule& rule) { return Matcher(index, rule).run(); }

std::vector<Match> find_matches(const Pcg& pcg, const Rule& rule) { return find_matches(MatchIndex(pcg), rule); }

}  // namespace unity
