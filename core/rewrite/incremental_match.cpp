#include "core/rewrite/incremental_match.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

namespace unity {
namespace {

constexpr int kNever = std::numeric_limits<int>::max() / 2;  // steps to a change where there is none

// The longest way that matching can go from the root: patterns are small trees, and a node of several users is met on
// any of its ways.
class Walk {
 public:
  explicit Walk(const Rule& rule)
      : rule_(rule), nodes_(rule.source_nodes, kUnseen), variables_(rule.values.size(), kUnseen) {}

  RuleReach run() {
    RuleReach reach;
    visit(rule_.source_outputs[0], 0);
    for (PatternValue output : rule_.source_outputs) {
      if (steps_of(output) != kUnseen) continue;
      std::optional<int> from = shared_operand(output.node);
      if (!from) return {RuleReach::Where::anywhere, 0, reads_layouts()};
      reach.where = RuleReach::Where::around;
      visit(output, *from + 1);
    }
    reach.steps = *std::max_element(nodes_.begin(), nodes_.end());
    reach.layouts = reads_layouts();
    return reach;
  }

 private:
  static constexpr int kUnseen = -1;

  int steps_of(PatternValue v) const {
    return v.variable >= 0 ? variables_[static_cast<std::size_t>(v.variable)]
                           : nodes_[static_cast<std::size_t>(v.node)];
  }

  void visit(PatternValue v, int steps) {
    if (v.variable >= 0) {
      int& known = variables_[static_cast<std::size_t>(v.variable)];
      known = std::max(known, steps);
      return;
    }
    int& known = nodes_[static_cast<std::size_t>(v.node)];
    known = std::max(known, steps);
    for (PatternValue input : rule_.nodes[static_cast<std::size_t>(v.node)].inputs) visit(input, steps + 1);
  }

  // Steps to the first operand that is bound by then.
  std::optional<int> shared_operand(int node) const {
    for (PatternValue input : rule_.nodes[static_cast<std::size_t>(node)].inputs)
      if (int steps = steps_of(input); steps != kUnseen) return steps;
    return std::nullopt;
  }

  static bool reads_layout(const Expression& e) {
    if (e.kind == Expression::Kind::shape && e.query != Expression::Query::rank && e.query != Expression::Query::dim)
      return true;
    return std::any_of(e.arguments.begin(), e.arguments.end(), reads_layout);
  }

  bool reads_layouts() const {
    for (const Condition& c : rule_.conditions)
      if (reads_layout(c.left) || reads_layout(c.right)) return true;
    for (std::size_t n = 0; n < rule_.source_nodes; ++n)
      for (const auto& attribute : rule_.nodes[n].attributes)
        if (attribute && reads_layout(*attribute)) return true;
    return false;
  }

  const Rule& rule_;
  std::vector<int> nodes_, variables_;  // steps from the root
};

// Pairs of nodes of two graphs, and how far from each node of the second one the next change is.
class Difference {
 public:
  Difference(const Pcg& before, const MatchIndex& after)
      : before_(before),
        after_(after.pcg),
        uses_before_(before.uses()),
        uses_after_(after.uses),
        before_of_(after_.size()),
        after_of_(before.size()) {
    pair();
    for (bool layouts : {false, true}) {
      below_[layouts] = changed(layouts);
      around_[layouts] = below_[layouts];
      spread(below_[layouts], around_[layouts]);
    }
  }

  NodeId before_of(NodeId id) const { return before_of_[id.index()]; }
  NodeId after_of(NodeId id) const { return after_of_[id.index()]; }

  bool keeps_matches(NodeId root, const RuleReach& reach) const {
    const auto& steps = reach.where == RuleReach::Where::below ? below_ : around_;
    return reach.where != RuleReach::Where::anywhere && steps[reach.layouts][root.index()] > reach.steps;
  }

 private:
  // In the order of both graphs, a node with its operands' pairs as operands before others.
  void pair() {
    struct Candidate {
      OriginId origin;
      std::int32_t index;
      auto operator<=>(const Candidate&) const = default;
    };
    std::vector<Candidate> candidates;
    for (std::size_t i = 0; i < before_.size(); ++i)
      candidates.push_back({before_.nodes()[i].origin, static_cast<std::int32_t>(i)});
    std::sort(candidates.begin(), candidates.end());
    for (std::size_t i = 0; i < after_.size(); ++i) {
      const Node& node = after_.nodes()[i];
      NodeId first;
      auto at = std::lower_bound(candidates.begin(), candidates.end(), Candidate{node.origin, 0});
      for (; at != candidates.end() && at->origin == node.origin; ++at) {
        NodeId candidate(at->index);
        if (after_of_[candidate.index()].valid() || before_[candidate].op != node.op) continue;
        if (!first.valid()) first = candidate;
        if (!same_operands(node, before_[candidate])) continue;
        first = candidate;
        break;
      }
      if (!first.valid()) continue;
      before_of_[i] = first;
      after_of_[first.index()] = NodeId(static_cast<std::int64_t>(i));
    }
  }

  bool same_operands(const Node& after, const Node& before) const {
    return std::equal(after.inputs.begin(), after.inputs.end(), before.inputs.begin(), before.inputs.end(),
                      [&](ValueRef a, ValueRef b) { return a.output == b.output && before_of(a.node) == b.node; });
  }

  // In order: it is that in which further outputs are tried.
  bool same_users(NodeId after, NodeId before) const {
    const auto &now = uses_after_[after.index()], &was = uses_before_[before.index()];
    return std::equal(now.begin(), now.end(), was.begin(), was.end(), [&](const Pcg::Use& a, const Pcg::Use& b) {
      return a.operand == b.operand && a.output == b.output && before_of(a.user) == b.user;
    });
  }

  static bool same_shape(const ParallelShape& a, const ParallelShape& b, bool layouts) {
    if (layouts) return a == b;
    return a.dtype == b.dtype &&
           std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(),
                      [](const ParallelDim& x, const ParallelDim& y) { return x.size == y.size; });
  }

  // The shapes of results follow from those of operands.
  bool unchanged(NodeId id, bool layouts) const {
    NodeId was = before_of(id);
    if (!was.valid()) return false;
    const Node &a = after_[id], &b = before_[was];
    if (a.attributes != b.attributes || !same_operands(a, b) || !same_users(id, was)) return false;
    return std::all_of(a.inputs.begin(), a.inputs.end(), [&](ValueRef v) {
      return same_shape(after_.shape(v), before_.shape({before_of(v.node), v.output}), layouts);
    });
  }

  // By node: 0 where it changed.
  std::vector<int> changed(bool layouts) const {
    std::vector<int> steps(after_.size());
    for (std::size_t i = 0; i < steps.size(); ++i)
      steps[i] = unchanged(NodeId(static_cast<std::int64_t>(i)), layouts) ? kNever : 0;
    std::vector<ValueRef> now = after_.outputs(), was = before_.outputs();
    std::sort(now.begin(), now.end());
    std::sort(was.begin(), was.end());
    for (ValueRef v : now)
      if (!std::binary_search(was.begin(), was.end(), ValueRef{before_of(v.node), v.output})) steps[v.node.index()] = 0;
    for (ValueRef v : was)
      if (NodeId id = after_of(v.node);
          id.valid() && !std::binary_search(now.begin(), now.end(), ValueRef{id, v.output}))
        steps[id.index()] = 0;
    return steps;
  }

  // From the changed nodes: to those above, and to all around.
  void spread(std::vector<int>& below, std::vector<int>& around) const {
    std::vector<NodeId> reached;
    for (std::size_t i = 0; i < after_.size(); ++i) {
      for (ValueRef v : after_.nodes()[i].inputs) below[i] = std::min(below[i], below[v.node.index()] + 1);
      if (around[i] == 0) reached.emplace_back(static_cast<std::int64_t>(i));
    }
    for (std::size_t next = 0; next < reached.size(); ++next) {
      int steps = around[reached[next].index()] + 1;
      auto reach = [&](NodeId id) {
        if (around[id.index()] != kNever) return;
        around[id.index()] = steps;
        reached.push_back(id);
      };
      for (ValueRef v : after_[reached[next]].inputs) reach(v.node);
      for (const Pcg::Use& use : uses_after_[reached[next].index()]) reach(use.user);
    }
  }

  const Pcg &before_, &after_;
  std::vector<std::vector<Pcg::Use>> uses_before_;
  const std::vector<std::vector<Pcg::Use>>& uses_after_;
  std::vector<NodeId> before_of_, after_of_;        // by node of the other graph; invalid where there is no pair
  std::array<std::vector<int>, 2> below_, around_;  // steps to a change, with layouts or not
};

Match moved(const Match& match, const Difference& difference) {
  Match result = match;
  for (NodeId& id : result.nodes) id = difference.after_of(id);
  for (ValueRef& v : result.values)
    if (v.node.valid()) v.node = difference.after_of(v.node);
  result.top = difference.after_of(match.top);
  return result;
}

GraphMatches find(const MatchIndex& index, const PreparedRules& rules, const Difference* difference,
                  const GraphMatches* known) {
  std::vector<const std::vector<NodeId>*> places;  // by operator of the rules; null: there is none
  for (const Operator* op : rules.operators()) {
    auto found = index.nodes.find(op);
    places.push_back(found == index.nodes.end() ? nullptr : &found->second);
  }
  GraphMatches result;
  result.ends.reserve(rules.rules().size());
  if (known) result.all.reserve(known->all.size());
  for (std::size_t r = 0; r < rules.rules().size(); ++r) {
    const PreparedRules::Prepared& rule = rules.rules()[r];
    bool occurs = std::all_of(rule.operators.begin(), rule.operators.end(),
                              [&](int op) { return places[static_cast<std::size_t>(op)] != nullptr; });
    if (occurs) {
      std::span<const Match> old = known ? known->of(r) : std::span<const Match>();
      for (NodeId root : *places[static_cast<std::size_t>(rule.operators[0])]) {
        if (!difference || !difference->keeps_matches(root, rule.reach)) {
          find_matches_at(index, rule.pattern, root, result.all);
          continue;
        }
        NodeId top = difference->before_of(root);
        auto at = std::lower_bound(old.begin(), old.end(), top, [](const Match& m, NodeId id) { return m.top < id; });
        for (; at != old.end() && at->top == top; ++at, ++result.carried) result.all.push_back(moved(*at, *difference));
      }
    }
    result.ends.push_back(result.all.size());
  }
  return result;
}

}  // namespace

RuleReach reach_of(const Rule& rule) { return Walk(rule).run(); }

PreparedRules::PreparedRules(const std::vector<Rule>& rules, const std::function<bool(const Rule&)>& wanted) {
  std::map<const Operator*, int> numbers;
  for (std::size_t r = 0; r < rules.size(); ++r) {
    if (!wanted(rules[r])) continue;
    Prepared prepared{static_cast<int>(r), SourcePattern(rules[r]), reach_of(rules[r]), {}};
    auto add = [&](const Operator* op) {
      auto [number, fresh] = numbers.try_emplace(op, static_cast<int>(operators_.size()));
      if (fresh) operators_.push_back(op);
      prepared.operators.push_back(number->second);
    };
    add(prepared.pattern.root());
    for (const Operator* op : prepared.pattern.operators)
      if (op != prepared.pattern.root()) add(op);
    rules_.push_back(std::move(prepared));
  }
}

GraphMatches find_matches(const MatchIndex& index, const PreparedRules& rules) {
  return find(index, rules, nullptr, nullptr);
}

GraphMatches find_matches(const MatchIndex& index, const PreparedRules& rules, const Pcg& other,
                          const GraphMatches& of_other) {
  Difference difference(other, index);
  return find(index, rules, &difference, &of_other);
}

}  // namespace unity
