#include "core/rewrite/term_rewrites.h"

#include <algorithm>

namespace unity {
namespace {

using Values = std::vector<ValueRef>;

struct Binding {
  std::vector<NodeId> nodes;                              // by source node
  std::vector<ValueRef> values;                           // by value variable
  std::vector<std::optional<AttributeValue>> attributes;  // by attribute variable
};

// Matches a rule's source against terms and builds its target.
class Rewriter {
 public:
  Rewriter(SharedTerms& terms, const DirectedRule& directed, const std::vector<NodeId>& others,
           const Candidates& candidates)
      : terms_(terms), directed_(directed), rule_(&directed.rule), others_(others), candidates_(&candidates) {}

  std::vector<Rewrite> at(NodeId root) {
    Binding start = empty();
    PatternValue output = rule_->source_outputs[0];
    solve(std::move(start), {{output, {root, output.output}}});
    return std::move(found_);
  }

  std::vector<Rewrite> introduced(ValueRef value) {
    Binding start = empty();
    start.values[static_cast<std::size_t>(rule_->source_outputs[0].variable)] = value;
    finish(std::move(start));
    return std::move(found_);
  }

 private:
  struct Goal {
    PatternValue pattern;
    ValueRef value;
  };

  Binding empty() const {
    Binding binding;
    binding.nodes.resize(rule_->source_nodes);
    binding.values.resize(rule_->values.size());
    binding.attributes.resize(rule_->attributes.size());
    return binding;
  }

  // Solves the goals, last first; then looks for the next output of the source.
  void solve(Binding binding, std::vector<Goal> goals) {
    while (!goals.empty()) {
      Goal goal = goals.back();
      goals.pop_back();
      if (goal.pattern.variable >= 0) {
        ValueRef& bound = binding.values[static_cast<std::size_t>(goal.pattern.variable)];
        if (bound.node.valid() && bound != goal.value) return;
        bound = goal.value;
        continue;
      }
      auto n = static_cast<std::size_t>(goal.pattern.node);
      if (goal.value.output != goal.pattern.output) return;
      if (binding.nodes[n].valid()) {
        if (binding.nodes[n] != goal.value.node) return;
        continue;
      }
      if (!bind_node(binding, n, goal.value.node)) return;
      const PatternNode& pattern = rule_->nodes[n];
      const Values inputs = terms_.pcg()[goal.value.node].inputs;  // building targets moves the nodes
      if (inputs.size() == 2 && pattern.op->commutative()) {
        std::vector<Goal> swapped = goals;
        swapped.push_back({pattern.inputs[1], inputs[0]});
        swapped.push_back({pattern.inputs[0], inputs[1]});
        solve(binding, std::move(swapped));
      }
      for (std::size_t i = inputs.size(); i-- > 0;) goals.push_back({pattern.inputs[i], inputs[i]});
    }
    for (PatternValue output : rule_->source_outputs) {
      if (output.node < 0 || binding.nodes[static_cast<std::size_t>(output.node)].valid()) continue;
      for (NodeId id : others_) solve(binding, {{output, {id, output.output}}});
      return;
    }
    finish(std::move(binding));
  }

  // Operator, number of results, attributes; binds attribute variables.
  bool bind_node(Binding& binding, std::size_t n, NodeId id) const {
    const PatternNode& pattern = rule_->nodes[n];
    const Node& node = terms_.pcg()[id];
    if (node.op != pattern.op || terms_.opaque(id) || node.inputs.size() != pattern.inputs.size() ||
        static_cast<int>(node.outputs.size()) != pattern.results)
      return false;
    for (std::size_t i = 0; i < pattern.attributes.size(); ++i) {
      const AttributeValue& value = node.attributes[i];
      if (!pattern.attributes[i]) {
        if (value != pattern.op->attributes()[i].fallback) return false;
        continue;
      }
      const Expression& expression = *pattern.attributes[i];
      if (expression.kind == Expression::Kind::constant) {
        if (value != expression.constant) return false;
        continue;
      }
      auto& bound = binding.attributes[static_cast<std::size_t>(expression.variable)];
      if (bound && *bound != value) return false;
      bound = value;
    }
    binding.nodes[n] = id;
    return true;
  }

  Bindings bindings(const Binding& b) const { return {terms_.pcg(), b.nodes, b.values, b.attributes}; }

  void finish(Binding binding) {
    for (const DirectedRule::Solved& solved : directed_.solved) {
      const Condition& c = rule_->conditions[static_cast<std::size_t>(solved.condition)];
      const Expression& expression = solved.left ? c.right : c.left;
      auto value = evaluate(expression, *rule_, bindings(binding));
      if (!value.ok()) return;
      binding.attributes[static_cast<std::size_t>(solved.variable)] = *value;
    }
    choose(std::move(binding), 0);
  }

  void choose(Binding binding, std::size_t next) {
    for (const Condition& condition : rule_->conditions)
      if (!has_unbound(condition, bindings(binding)) && !check(condition, *rule_, bindings(binding)).ok()) return;
    const std::vector<DirectedRule::Chosen>& chosen = directed_.chosen;
    if (next == chosen.size()) return build(std::move(binding));
    const auto& values = chosen[next].role == DirectedRule::Role::degree      ? candidates_->degrees
                         : chosen[next].role == DirectedRule::Role::dimension ? candidates_->dimensions
                                                                              : candidates_->numbers;
    for (std::int64_t value : values) {
      binding.attributes[static_cast<std::size_t>(chosen[next].variable)] = value;
      choose(binding, next + 1);
    }
  }

  void build(Binding binding) {
    Rewrite rewrite;
    rewrite.rule = &directed_;
    std::vector<NodeId> built(rule_->nodes.size());
    std::copy(binding.nodes.begin(), binding.nodes.end(), built.begin());
    auto value = [&](PatternValue v) {
      return v.variable >= 0 ? binding.values[static_cast<std::size_t>(v.variable)]
                             : ValueRef{built[static_cast<std::size_t>(v.node)], v.output};
    };
    for (std::size_t n = rule_->source_nodes; n < rule_->nodes.size(); ++n) {
      const PatternNode& pattern = rule_->nodes[n];
      Attributes attributes;
      for (std::size_t i = 0; i < pattern.attributes.size(); ++i) {
        if (!pattern.attributes[i]) {
          attributes.push_back(pattern.op->attributes()[i].fallback);
          continue;
        }
        auto attribute = evaluate(*pattern.attributes[i], *rule_, bindings(binding));
        if (!attribute.ok()) return;
        attributes.push_back(std::move(*attribute));
      }
      Values inputs;
      for (PatternValue v : pattern.inputs) inputs.push_back(value(v));
      auto added = terms_.add(*pattern.op, attributes, std::move(inputs));
      if (!added.ok() || static_cast<int>(terms_.pcg()[*added].outputs.size()) < pattern.results) return;
      built[n] = *added;
    }
    for (std::size_t o = 0; o < rule_->source_outputs.size(); ++o) {
      ValueRef from = value(rule_->source_outputs[o]), to = value(rule_->target_outputs[o]);
      if (terms_.shape(from) != terms_.shape(to)) return;
      if (from != to && !rewrite.replaced.emplace(from, to).second) return;
    }
    if (rewrite.replaced.empty()) return;
    rewrite.attributes = std::move(binding.attributes);
    found_.push_back(std::move(rewrite));
  }

  SharedTerms& terms_;
  const DirectedRule& directed_;
  const Rule* rule_;
  const std::vector<NodeId>& others_;
  const Candidates* candidates_;
  std::vector<Rewrite> found_;
};

}  // namespace

std::vector<Rewrite> rewrites_at(SharedTerms& terms, const DirectedRule& rule, NodeId root,
                                 const std::vector<NodeId>& others, const Candidates& candidates) {
  return Rewriter(terms, rule, others, candidates).at(root);
}

std::vector<Rewrite> introductions_at(SharedTerms& terms, const DirectedRule& rule, ValueRef value,
                                      const Candidates& candidates) {
  return Rewriter(terms, rule, {}, candidates).introduced(value);
}

}  // namespace unity
