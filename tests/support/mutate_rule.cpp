#include "tests/support/mutate_rule.h"

#include <array>

#include "core/rewrite/rule_text.h"

namespace unity::test {
namespace {

class Mutation {
 public:
  Mutation(const Rule& rule, RandomKey key) : rule_(rule), key_(key) {}

  std::optional<Rule> run() {
    std::size_t targets = rule_.nodes.size() - rule_.source_nodes;
    auto kind = below(8);
    if (kind == 0 && !rule_.conditions.empty()) return changed_condition();
    if (targets == 0) return std::nullopt;
    PatternNode& node = rule_.nodes[rule_.source_nodes + below(targets)];
    bool done = kind <= 1   ? drop(node)
                : kind == 2 ? swap_operands(node)
                : kind == 3 ? other_variable(node)
                : kind == 4 ? other_operator(node)
                            : change_attribute(node);
    return done ? std::optional(rule_) : std::nullopt;
  }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_below(key_, index_++, n)); }

  std::optional<Rule> changed_condition() {
    auto at = below(rule_.conditions.size());
    if (below(2) == 0)
      rule_.conditions.erase(rule_.conditions.begin() + static_cast<std::ptrdiff_t>(at));
    else
      std::swap(rule_.conditions[at].left, rule_.conditions[at].right);
    return rule_;
  }

  // Its operand takes its place.
  bool drop(const PatternNode& node) {
    auto n = static_cast<int>(&node - rule_.nodes.data());
    if (node.results != 1) return false;
    PatternValue operand = node.inputs[below(node.inputs.size())];
    auto replace = [&](PatternValue& v) {
      if (v.node == n) v = operand;
    };
    for (PatternNode& other : rule_.nodes)
      for (PatternValue& v : other.inputs) replace(v);
    for (PatternValue& v : rule_.target_outputs) replace(v);
    rule_.nodes.erase(rule_.nodes.begin() + n);
    auto move = [&](PatternValue& v) {
      if (v.node > n) --v.node;
    };
    for (PatternNode& other : rule_.nodes)
      for (PatternValue& v : other.inputs) move(v);
    for (PatternValue& v : rule_.target_outputs) move(v);
    return true;
  }

  bool swap_operands(PatternNode& node) {
    if (node.inputs.size() < 2) return false;
    auto i = below(node.inputs.size() - 1);
    if (node.inputs[i] == node.inputs[i + 1]) return false;
    std::swap(node.inputs[i], node.inputs[i + 1]);
    return true;
  }

  bool other_variable(PatternNode& node) {
    for (PatternValue& v : node.inputs)
      if (v.variable >= 0 && rule_.values.size() > 1) {
        v.variable = static_cast<int>((static_cast<std::size_t>(v.variable) + 1) % rule_.values.size());
        return true;
      }
    return false;
  }

  bool other_operator(PatternNode& node) {
    static const std::array<std::array<const char*, 2>, 10> kOthers = {{{"partition", "combine"},
                                                                        {"combine", "partition"},
                                                                        {"replicate", "reduce"},
                                                                        {"reduce", "replicate"},
                                                                        {"add", "mul"},
                                                                        {"mul", "add"},
                                                                        {"relu", "tanh"},
                                                                        {"softmax", "causal_softmax"},
                                                                        {"causal_softmax", "softmax"},
                                                                        {"sub", "add"}}};
    for (const auto& [from, to] : kOthers)
      if (node.op->name() == from) {
        node.op = &get_operator(to);
        return true;
      }
    return false;
  }

  bool change_attribute(PatternNode& node) {
    if (node.attributes.empty()) return false;
    auto& e = node.attributes[below(node.attributes.size())];
    if (!e) return false;
    if (e->kind == Expression::Kind::list && e->arguments.size() > 1) {
      std::swap(e->arguments[0], e->arguments[1]);
      return true;
    }
    if (e->kind == Expression::Kind::list) return false;
    if (const auto* text = std::get_if<std::string>(&e->constant); text && e->kind == Expression::Kind::constant) {
      e->constant = std::string(*text == "none" ? "relu" : "none");
      return true;
    }
    if (const auto* number = std::get_if<std::int64_t>(&e->constant); number && e->kind == Expression::Kind::constant) {
      e->constant = *number == 0 ? std::int64_t{1} : *number - 1 + static_cast<std::int64_t>(2 * below(2));
      return true;
    }
    if (e->kind == Expression::Kind::variable && rule_.attributes.size() > 1 &&
        node.op->category() != OpCategory::compute) {
      e->variable = static_cast<int>((static_cast<std::size_t>(e->variable) + 1) % rule_.attributes.size());
      return true;
    }
    return false;
  }

  Rule rule_;
  RandomKey key_;
  std::uint64_t index_ = 0;
};

}  // namespace

// A mutant that the parser refuses (an unbound name) is none.
std::optional<Rule> mutate(const Rule& rule, RandomKey key) {
  auto mutant = Mutation(rule, key).run();
  if (!mutant) return std::nullopt;
  try {
    Rule parsed = parse_rules(print(*mutant)).front();
    if (print(parsed) == print(rule)) return std::nullopt;
    return parsed;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace unity::test
