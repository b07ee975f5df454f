#include "core/generate/term_rewrite.h"

#include <algorithm>
#include <map>

namespace unity {
namespace {

using Kind = Expression::Kind;
using Attribute = std::optional<AttributeValue>;

struct TermMatch {
  std::vector<std::int32_t> nodes, values;  // by source node and value variable of the rule; -1: not bound
  std::vector<Attribute> attributes;
};

class Rewriter {
 public:
  Rewriter(TermTable& terms, const Rule& rule, TermGraph graph, const Integers& degrees)
      : terms_(terms), rule_(rule), graph_(graph), degrees_(degrees), graph_nodes_(nodes_of(terms, graph)) {}

  std::vector<TermGraph> run() {
    TermMatch start;
    start.nodes.assign(rule_.source_nodes, -1);
    start.values.assign(rule_.values.size(), -1);
    start.attributes.resize(rule_.attributes.size());
    solve(std::move(start), {});
    std::sort(results_.begin(), results_.end(),
              [](TermGraph a, TermGraph b) { return std::pair(a.first, a.second) < std::pair(b.first, b.second); });
    results_.erase(std::unique(results_.begin(), results_.end()), results_.end());
    return std::move(results_);
  }

 private:
  struct Goal {
    PatternValue pattern;
    std::int32_t value;
  };

  void solve(TermMatch match, std::vector<Goal> goals) {
    while (!goals.empty()) {
      Goal goal = goals.back();
      goals.pop_back();
      if (goal.pattern.variable >= 0) {
        std::int32_t& bound = match.values[static_cast<std::size_t>(goal.pattern.variable)];
        if (bound >= 0 && bound != goal.value) return;
        bound = goal.value;
        continue;
      }
      auto n = static_cast<std::size_t>(goal.pattern.node);
      const TermValue& value = terms_.value(goal.value);
      if (value.node < 0 || value.output != goal.pattern.output) return;
      if (match.nodes[n] >= 0) {
        if (match.nodes[n] != value.node) return;
        continue;
      }
      if (!bind(match, n, value.node)) return;
      const PatternNode& pattern = rule_.nodes[n];
      auto pooled = terms_.inputs(value.node);  // moves when the target makes new terms
      const std::vector<std::int32_t> inputs(pooled.begin(), pooled.end());
      if (inputs.size() == 2 && pattern.op->commutative()) {
        std::vector<Goal> swapped = goals;
        swapped.push_back({pattern.inputs[1], inputs[0]});
        swapped.push_back({pattern.inputs[0], inputs[1]});
        solve(match, std::move(swapped));
      }
      for (std::size_t i = inputs.size(); i-- > 0;) goals.push_back({pattern.inputs[i], inputs[i]});
    }
    for (PatternValue output : rule_.source_outputs) {
      if (match.nodes[static_cast<std::size_t>(output.node)] >= 0) continue;
      for (std::int32_t node : graph_nodes_)
        if (output.output < terms_.node(node).results)
          solve(match, {{output, terms_.node(node).first_value + output.output}});
      return;
    }
    finish(match);
  }

  bool bind(TermMatch& match, std::size_t n, std::int32_t node) const {
    const PatternNode& pattern = rule_.nodes[n];
    const TermOperator& op = terms_.op_of(node);
    if (op.op != pattern.op || op.operands != static_cast<int>(pattern.inputs.size()) ||
        terms_.node(node).results != pattern.results ||
        std::find(match.nodes.begin(), match.nodes.end(), node) != match.nodes.end())
      return false;
    for (std::size_t i = 0; i < pattern.attributes.size(); ++i) {
      const AttributeValue& value = op.attributes[i];
      if (!pattern.attributes[i]) {
        if (value != pattern.op->attributes()[i].fallback) return false;
        continue;
      }
      const Expression& e = *pattern.attributes[i];
      if (e.kind == Kind::constant && value != e.constant) return false;
      if (e.kind != Kind::variable) continue;
      Attribute& bound = match.attributes[static_cast<std::size_t>(e.variable)];
      if (bound && *bound != value) return false;
      bound = value;
    }
    match.nodes[n] = node;
    return true;
  }

  // ---- Expressions

  Attribute value_of(const Expression& e, const TermMatch& match) const {
    switch (e.kind) {
      case Kind::constant:
        return e.constant;
      case Kind::variable:
        return match.attributes[static_cast<std::size_t>(e.variable)];
      case Kind::list: {
        Integers items;
        for (const Expression& item : e.arguments) {
          auto i = integer(item, match);
          if (!i) return std::nullopt;
          items.push_back(*i);
        }
        return AttributeValue(std::move(items));
      }
      case Kind::shape:
        return shape_query(e, match);
      default:
        break;
    }
    Attribute left = value_of(e.arguments[0], match), right = value_of(e.arguments[1], match);
    if (!left || !right || left->index() > 1 || right->index() > 1) return std::nullopt;
    if (left->index() == 1 || right->index() == 1) {
      auto real = [](const AttributeValue& v) {
        return v.index() == 1 ? std::get<double>(v) : static_cast<double>(std::get<std::int64_t>(v));
      };
      double a = real(*left), b = real(*right);
      if (e.kind == Kind::remainder) return std::nullopt;
      return AttributeValue(e.kind == Kind::add        ? a + b
                            : e.kind == Kind::subtract ? a - b
                            : e.kind == Kind::multiply ? a * b
                                                       : a / b);
    }
    std::int64_t a = std::get<std::int64_t>(*left), b = std::get<std::int64_t>(*right);
    if (b == 0 && (e.kind == Kind::divide || e.kind == Kind::remainder)) return std::nullopt;
    return AttributeValue(e.kind == Kind::add        ? a + b
                          : e.kind == Kind::subtract ? a - b
                          : e.kind == Kind::multiply ? a * b
                          : e.kind == Kind::divide   ? a / b
                                                     : a % b);
  }

  Attribute shape_query(const Expression& e, const TermMatch& match) const {
    std::int32_t v = -1;
    if (e.value.variable >= 0)
      v = match.values[static_cast<std::size_t>(e.value.variable)];
    else
      v = terms_.node(match.nodes[static_cast<std::size_t>(e.value.node)]).first_value + e.value.output;
    const ParallelShape& shape = terms_.shape(v);
    if (e.query == Expression::Query::rank) return AttributeValue(static_cast<std::int64_t>(shape.dims.size()));
    if (e.query == Expression::Query::copies) return AttributeValue(std::int64_t{shape.copies});
    if (e.query == Expression::Query::partials) return AttributeValue(std::int64_t{shape.partials});
    auto i = integer(e.arguments[0], match);
    if (!i || *i < 0 || *i >= static_cast<std::int64_t>(shape.dims.size())) return std::nullopt;
    const ParallelDim& dim = shape.dims[static_cast<std::size_t>(*i)];
    return AttributeValue(e.query == Expression::Query::dim ? dim.size : std::int64_t{dim.degree});
  }

  std::optional<std::int64_t> integer(const Expression& e, const TermMatch& match) const {
    Attribute v = value_of(e, match);
    if (!v || v->index() != 0) return std::nullopt;
    return std::get<std::int64_t>(*v);
  }

  bool holds(const Condition& c, const TermMatch& match) const {
    Attribute left = value_of(c.left, match), right = value_of(c.right, match);
    if (!left || !right) return false;
    if (c.kind == Condition::Kind::equal) return *left == *right;
    if (c.kind == Condition::Kind::not_equal) return *left != *right;
    if (left->index() != 0 || right->index() != 0) return false;
    std::int64_t a = std::get<std::int64_t>(*left), b = std::get<std::int64_t>(*right);
    switch (c.kind) {
      case Condition::Kind::divides:
        return a > 0 && b % a == 0;
      case Condition::Kind::less:
        return a < b;
      case Condition::Kind::less_equal:
        return a <= b;
      case Condition::Kind::greater:
        return a > b;
      case Condition::Kind::greater_equal:
        return a >= b;
      default:
        return false;
    }
  }

  // ---- The target in place of a match

  bool is_rule_output(std::size_t n, int output) const {
    return std::any_of(rule_.source_outputs.begin(), rule_.source_outputs.end(),
                       [&](PatternValue v) { return v.node == static_cast<int>(n) && v.output == output; });
  }

  bool matched(const TermMatch& match, std::int32_t node) const {
    return std::find(match.nodes.begin(), match.nodes.end(), node) != match.nodes.end();
  }

  // Results inside the match are used nowhere else, and its operands do not depend on it.
  bool fits(const TermMatch& match) const {
    for (std::int32_t v : match.values) {
      if (v < 0) continue;
      const TermValue& value = terms_.value(v);
      for (std::int32_t i = 0; i < value.operators; ++i)
        if (matched(match, value.closure[static_cast<std::size_t>(i)])) return false;
    }
    for (std::size_t n = 0; n < rule_.source_nodes; ++n) {
      const TermNode& node = terms_.node(match.nodes[n]);
      for (int r = 0; r < node.results; ++r) {
        if (is_rule_output(n, r)) continue;
        std::int32_t v = node.first_value + r;
        if (graph_.first == v || graph_.second == v) return false;
        for (std::int32_t user : graph_nodes_) {
          auto in = terms_.inputs(user);
          if (!matched(match, user) && std::find(in.begin(), in.end(), v) != in.end()) return false;
        }
      }
    }
    return true;
  }

  void finish(TermMatch& match) {
    for (std::size_t n = 0; n < rule_.source_nodes; ++n)
      for (std::size_t i = 0; i < rule_.nodes[n].attributes.size(); ++i) {
        const auto& e = rule_.nodes[n].attributes[i];
        if (!e || e->kind == Kind::variable || e->kind == Kind::constant) continue;
        Attribute value = value_of(*e, match);
        if (!value || *value != terms_.op_of(match.nodes[n]).attributes[i]) return;
      }
    if (!fits(match)) return;
    choose(match, 0);
  }

  void choose(TermMatch& match, std::size_t parameter) {
    if (parameter < rule_.parameters.size()) {
      for (std::int64_t d : degrees_) {
        match.attributes[static_cast<std::size_t>(rule_.parameters[parameter])] = d;
        choose(match, parameter + 1);
      }
      return;
    }
    for (const Condition& c : rule_.conditions)
      if (!holds(c, match)) return;
    replace(match);
  }

  void replace(const TermMatch& match) {
    std::map<std::int32_t, std::int32_t> moved;  // old value to new
    std::vector<std::int32_t> built(rule_.nodes.size(), -1);
    auto value = [&](PatternValue p) {
      if (p.variable >= 0) return match.values[static_cast<std::size_t>(p.variable)];
      auto n = static_cast<std::size_t>(p.node);
      return terms_.node(n < rule_.source_nodes ? match.nodes[n] : built[n]).first_value + p.output;
    };
    std::vector<std::int32_t> inputs;
    for (std::size_t n = rule_.source_nodes; n < rule_.nodes.size(); ++n) {
      const PatternNode& pattern = rule_.nodes[n];
      TermOperator op{pattern.op, {}, static_cast<int>(pattern.inputs.size())};
      auto specs = pattern.op->attributes();
      for (std::size_t i = 0; i < specs.size(); ++i) {
        Attribute a = pattern.attributes[i] ? value_of(*pattern.attributes[i], match) : specs[i].fallback;
        if (!a || a->index() != static_cast<std::size_t>(specs[i].kind)) return;
        op.attributes.push_back(std::move(*a));
      }
      inputs.clear();
      for (PatternValue v : pattern.inputs) inputs.push_back(value(v));
      built[n] = terms_.apply(terms_.add_operator(std::move(op)), inputs);
      if (built[n] < 0 || terms_.node(built[n]).results != pattern.results) return;
    }
    for (std::size_t o = 0; o < rule_.source_outputs.size(); ++o) {
      std::int32_t was = value(rule_.source_outputs[o]), is = value(rule_.target_outputs[o]);
      if (terms_.value(was).shape != terms_.value(is).shape) return;
      moved[was] = is;
    }
    auto follow = [&](std::int32_t v) {
      auto found = moved.find(v);
      return found == moved.end() ? v : found->second;
    };
    for (std::int32_t n : graph_nodes_) {
      if (matched(match, n)) continue;
      inputs.clear();
      bool changed = false;
      for (std::int32_t v : terms_.inputs(n)) {
        inputs.push_back(follow(v));
        changed = changed || inputs.back() != v;
      }
      if (!changed) continue;
      int made = terms_.apply(terms_.node(n).op, inputs);
      if (made < 0) return;
      for (int r = 0; r < terms_.node(n).results; ++r)
        moved[terms_.node(n).first_value + r] = terms_.node(made).first_value + r;
    }
    TermGraph result{follow(graph_.first), graph_.second < 0 ? -1 : follow(graph_.second)};
    if (!(result == graph_)) results_.push_back(result);
  }

  TermTable& terms_;
  const Rule& rule_;
  TermGraph graph_;
  const Integers& degrees_;
  std::vector<std::int32_t> graph_nodes_;
  std::vector<TermGraph> results_;
};

}  // namespace

std::vector<TermGraph> rewrite_term(TermTable& terms, const Rule& rule, TermGraph graph, const Integers& degrees) {
  return Rewriter(terms, rule, graph, degrees).run();
}

}  // namespace unity
