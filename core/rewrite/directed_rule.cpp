#include "core/rewrite/directed_rule.h"

#include <algorithm>
#include <set>

namespace unity {
namespace {

using Kind = Expression::Kind;

void for_each_expression(const Expression& e, const auto& f) {
  f(e);
  for (const Expression& argument : e.arguments) for_each_expression(argument, f);
}

void for_each_expression(Expression& e, const auto& f) {
  f(e);
  for (Expression& argument : e.arguments) for_each_expression(argument, f);
}

std::set<int> variables_in(const Expression& expression) {
  std::set<int> found;
  for_each_expression(expression, [&](const Expression& e) {
    if (e.kind == Kind::variable) found.insert(e.variable);
  });
  return found;
}

// Every attribute of the source that is computed becomes a variable of its own and a condition.
void name_computed_attributes(Rule& rule) {
  for (std::size_t n = 0; n < rule.source_nodes; ++n)
    for (auto& attribute : rule.nodes[n].attributes) {
      if (!attribute || attribute->kind == Kind::constant || attribute->kind == Kind::variable) continue;
      Condition same;
      same.left.kind = Kind::variable;
      same.left.variable = static_cast<int>(rule.attributes.size());
      same.right = *attribute;
      rule.attributes.push_back(fmt::format("${}", rule.attributes.size()));
      attribute = same.left;
      rule.conditions.push_back(std::move(same));
    }
}

// What an attribute variable stands for: the attributes that are it.
struct Uses {
  bool dimension = false, degree = false, other_kind = false;
};
Uses uses_of(const Rule& rule, int variable) {
  Uses uses;
  for (const PatternNode& node : rule.nodes) {
    auto specs = node.op->attributes();
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (!node.attributes[i] || !variables_in(*node.attributes[i]).contains(variable)) continue;
      bool integer = specs[i].kind == AttributeKind::integer || node.attributes[i]->kind == Kind::list;
      uses.other_kind |= !integer;
      uses.dimension |= specs[i].name == "dim";
      uses.degree |= specs[i].name == "degree";
    }
  }
  return uses;
}

std::optional<DirectedRule> directed(Rule rule, std::size_t index, bool backward) {
  DirectedRule result;
  result.index = index;
  result.backward = backward;
  name_computed_attributes(rule);
  std::set<int> bound, wanted;
  for (std::size_t n = 0; n < rule.nodes.size(); ++n)
    for (const auto& attribute : rule.nodes[n].attributes) {
      if (!attribute) continue;
      if (n < rule.source_nodes && attribute->kind == Kind::variable) bound.insert(attribute->variable);
      wanted.merge(variables_in(*attribute));
    }
  for (const Condition& c : rule.conditions) wanted.merge(variables_in(c.left)), wanted.merge(variables_in(c.right));
  auto missing = [&](const std::set<int>& variables) {
    std::set<int> open;
    std::set_difference(variables.begin(), variables.end(), bound.begin(), bound.end(),
                        std::inserter(open, open.end()));
    return open;
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t c = 0; c < rule.conditions.size(); ++c)
      for (bool left : {true, false}) {
        const Condition& condition = rule.conditions[c];
        const Expression &is = left ? condition.left : condition.right,
                         &value = left ? condition.right : condition.left;
        if (condition.kind != Condition::Kind::equal || is.kind != Kind::variable || bound.contains(is.variable) ||
            !missing(variables_in(value)).empty())
          continue;
        result.solved.push_back({is.variable, static_cast<int>(c), left});
        bound.insert(is.variable);
        progress = true;
      }
  }
  for (int variable : missing(wanted)) {
    Uses uses = uses_of(rule, variable);
    if (uses.other_kind) return std::nullopt;
    result.chosen.push_back({variable, uses.dimension ? DirectedRule::Role::dimension
                                       : uses.degree  ? DirectedRule::Role::degree
                                                      : DirectedRule::Role::number});
  }
  rule.parameters.clear();
  for (const DirectedRule::Chosen& c : result.chosen) rule.parameters.push_back(c.variable);
  result.rule = std::move(rule);
  return result;
}

// Source and target change places.
class Turned {
 public:
  explicit Turned(const Rule& from) : from_(from), moved_(from.nodes.size(), -1) {}

  std::optional<Rule> run() {
    to_.name = from_.name;
    to_.values = from_.values;
    to_.attributes = from_.attributes;
    to_.proof = from_.proof;
    for (PatternValue v : from_.target_outputs) to_.source_outputs.push_back(value(v));
    to_.source_nodes = to_.nodes.size();
    // Values of the old source that the target keeps are written down again.
    std::fill(moved_.begin(), moved_.end(), -1);
    for (PatternValue v : from_.source_outputs) to_.target_outputs.push_back(value(v));
    to_.conditions = from_.conditions;
    for (Condition& c : to_.conditions)
      for (Expression* e : {&c.left, &c.right}) for_each_expression(*e, [&](Expression& x) { move_shape(x); });
    for (PatternNode& node : to_.nodes)
      for (auto& attribute : node.attributes)
        if (attribute) for_each_expression(*attribute, [&](Expression& x) { move_shape(x); });
    if (!binds_all() || !possible_) return std::nullopt;
    return std::move(to_);
  }

 private:
  PatternValue value(PatternValue v) {
    if (v.variable >= 0) return v;
    int& moved = moved_[static_cast<std::size_t>(v.node)];
    if (moved < 0) {
      PatternNode node = from_.nodes[static_cast<std::size_t>(v.node)];
      for (PatternValue& input : node.inputs) input = value(input);
      moved = static_cast<int>(to_.nodes.size());
      to_.nodes.push_back(std::move(node));
    }
    return {-1, moved, v.output};
  }

  // Shapes of what the old source computed are known only where the new one has the same value.
  void move_shape(Expression& e) {
    if (e.kind != Kind::shape || e.value.variable >= 0) return;
    for (std::size_t i = 0; i < from_.source_outputs.size(); ++i)
      if (from_.source_outputs[i] == e.value) {
        e.value = to_.source_outputs[i];
        return;
      }
    possible_ = false;
  }

  bool binds_all() const {
    std::set<int> bound, wanted;
    auto note = [](const std::vector<PatternValue>& values, std::set<int>& set) {
      for (PatternValue v : values)
        if (v.variable >= 0) set.insert(v.variable);
    };
    for (std::size_t n = 0; n < to_.nodes.size(); ++n) note(to_.nodes[n].inputs, n < to_.source_nodes ? bound : wanted);
    note(to_.source_outputs, bound);
    note(to_.target_outputs, wanted);
    return std::includes(bound.begin(), bound.end(), wanted.begin(), wanted.end());
  }

  const Rule& from_;
  Rule to_;
  std::vector<int> moved_;
  bool possible_ = true;
};

}  // namespace

std::optional<DirectedRule> forward(const Rule& rule, std::size_t index) { return directed(rule, index, false); }

std::optional<DirectedRule> backward(const Rule& rule, std::size_t index) {
  auto turned = Turned(rule).run();
  if (!turned) return std::nullopt;
  return directed(std::move(*turned), index, true);
}

}  // namespace unity
