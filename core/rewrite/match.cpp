#include "core/rewrite/match.h"

#include <algorithm>

namespace unity {
namespace {

// Where a graph has a real number, a whole one stands for it.
bool is_written(const AttributeValue& value, const AttributeValue& in_graph) {
  const auto* integer = std::get_if<std::int64_t>(&value);
  const auto* real = std::get_if<double>(&in_graph);
  return integer && real ? static_cast<double>(*integer) == *real : value == in_graph;
}

class Matcher {
 public:
  Matcher(const MatchIndex& index, const SourcePattern& pattern, std::vector<Match>& found)
      : index_(index),
        pcg_(index.pcg),
        uses_(index.uses),
        pattern_(pattern),
        rule_(pattern.rule),
        found_(found),
        before_(found.size()) {}

  void run(NodeId root) {
    PatternValue first = rule_.source_outputs[0];
    ValueRef value{root, first.output};
    if (!may_be(first, value)) return;
    Match start;
    start.top = root;
    start.nodes.resize(rule_.source_nodes);
    start.values.resize(rule_.values.size());
    start.attributes.resize(rule_.attributes.size());
    solve(std::move(start), {{first, value}});
  }

 private:
  struct Goal {
    PatternValue pattern;
    ValueRef value;
  };

  // Whether a node has the operator, the arity and the constant attributes of a source node.
  bool fits(std::size_t n, const Node& node) const {
    const PatternNode& pattern = rule_.nodes[n];
    if (node.op != pattern.op || node.inputs.size() != pattern.inputs.size() ||
        static_cast<int>(node.outputs.size()) != pattern.results)
      return false;
    for (std::size_t i = 0; i < pattern.attributes.size(); ++i) {
      const auto& expression = pattern.attributes[i];
      if (!expression ? node.attributes[i] != pattern_.defaults[n][i]
                      : expression->kind == Expression::Kind::constant && node.attributes[i] != expression->constant)
        return false;
    }
    return true;
  }

  // Whether nodes fit from there down: without it there is no match. Nothing is bound, which would take time.
  bool may_be(PatternValue pattern, ValueRef value) const {
    if (pattern.variable >= 0) return true;
    auto n = static_cast<std::size_t>(pattern.node);
    if (pattern.output != value.output || !fits(n, pcg_[value.node])) return false;
    const std::vector<PatternValue>& expected = rule_.nodes[n].inputs;
    const std::vector<ValueRef>& inputs = pcg_[value.node].inputs;
    if (inputs.size() == 2 && rule_.nodes[n].op->commutative())
      return (may_be(expected[0], inputs[0]) && may_be(expected[1], inputs[1])) ||
             (may_be(expected[0], inputs[1]) && may_be(expected[1], inputs[0]));
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!may_be(expected[i], inputs[i])) return false;
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

  // Binds the node and the attribute variables that stand alone, where all is as expected.
  bool bind_node(Match& match, std::size_t n, NodeId id) const {
    const PatternNode& pattern = rule_.nodes[n];
    const Node& node = pcg_[id];
    if (!fits(n, node) || std::find(match.nodes.begin(), match.nodes.end(), id) != match.nodes.end()) return false;
    for (std::size_t i = 0; i < pattern.attributes.size(); ++i) {
      if (!pattern.attributes[i] || pattern.attributes[i]->kind != Expression::Kind::variable) continue;
      auto& bound = match.attributes[static_cast<std::size_t>(pattern.attributes[i]->variable)];
      if (bound && *bound != node.attributes[i]) return false;
      bound = node.attributes[i];
    }
    match.nodes[n] = id;
    return true;
  }

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
    if (!expressions_agree(match) || !interior_is_private(match)) return;
    Bindings bindings{pcg_, match.nodes, match.values, match.attributes};
    for (const Condition& condition : rule_.conditions)
      if (!has_unbound(condition, bindings) && !check(condition, rule_, bindings).ok()) return;
    auto own = found_.begin() + static_cast<std::ptrdiff_t>(before_);
    if (std::find(own, found_.end(), match) == found_.end()) found_.push_back(std::move(match));
  }

  bool expressions_agree(const Match& match) const {
    Bindings bindings{pcg_, match.nodes, match.values, match.attributes};
    for (std::size_t n = 0; n < rule_.source_nodes; ++n)
      for (std::size_t i = 0; i < rule_.nodes[n].attributes.size(); ++i) {
        const auto& expression = rule_.nodes[n].attributes[i];
        if (!expression || expression->kind == Expression::Kind::variable) continue;
        auto value = evaluate(*expression, rule_, bindings);
        if (!value.ok() || !is_written(*value, pcg_[match.nodes[n]].attributes[i])) return false;
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
  const SourcePattern& pattern_;
  const Rule& rule_;
  std::vector<Match>& found_;
  std::size_t before_;  // matches at other roots
};

}  // namespace

MatchIndex::MatchIndex(const Pcg& graph) : pcg(graph), uses(graph.uses()) {
  for (std::size_t i = 0; i < graph.size(); ++i)
    nodes[graph.nodes()[i].op].push_back(NodeId(static_cast<std::int64_t>(i)));
}

SourcePattern::SourcePattern(const Rule& source) : rule(source) {
  for (std::size_t n = 0; n < rule.source_nodes; ++n) {
    const Operator* op = rule.nodes[n].op;
    if (std::find(operators.begin(), operators.end(), op) == operators.end()) operators.push_back(op);
    defaults.emplace_back();
    if (rule.nodes[n].attributes.empty()) continue;
    for (AttributeSpec& spec : op->attributes()) defaults.back().push_back(std::move(spec.fallback));
  }
}

void find_matches_at(const MatchIndex& index, const SourcePattern& pattern, NodeId root, std::vector<Match>& found) {
  Matcher(index, pattern, found).run(root);
}

std::vector<Match> find_matches(const MatchIndex& index, const Rule& rule) {
  for (std::size_t n = 0; n < rule.source_nodes; ++n)
    if (!index.nodes.contains(rule.nodes[n].op)) return {};
  SourcePattern pattern(rule);
  std::vector<Match> found;
  for (NodeId root : index.nodes.at(pattern.root())) find_matches_at(index, pattern, root, found);
  return found;
}

std::vector<Match> find_matches(const Pcg& pcg, const Rule& rule) { return find_matches(MatchIndex(pcg), rule); }

}  // namespace unity
