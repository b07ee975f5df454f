#include "core/generate/pattern.h"

#include <algorithm>
#include <map>

#include "core/base/text.h"
#include "core/graph/lexer.h"

namespace unity {
namespace {

class PatternBuilder {
 public:
  PatternBuilder(const TermTable& terms, const std::vector<std::string>& names) : terms_(terms), names_(names) {}

  std::optional<PairPattern> run(TermGraph source, TermGraph target) {
    for (std::int32_t v : {source.first, source.second})
      if (v >= 0) out_.source_outputs.push_back(value(v));
    out_.source_nodes = out_.nodes.size();
    nodes_.clear();
    fixed_ = true;
    for (std::int32_t v : {target.first, target.second})
      if (v >= 0) out_.target_outputs.push_back(value(v));
    if (unbound_) return std::nullopt;
    return std::move(out_);
  }

 private:
  PatternValue value(std::int32_t v) {
    const TermValue& term = terms_.value(v);
    if (term.node < 0) {
      auto [found, fresh] = variables_.emplace(v, static_cast<int>(out_.values.size()));
      if (fresh && fixed_) unbound_ = true;
      if (fresh) {
        out_.values.push_back(unused(names_[static_cast<std::size_t>(v)]));
        out_.layouts.push_back(terms_.shape(v));
      }
      return {found->second, -1, 0};
    }
    auto known = nodes_.find(term.node);
    if (known != nodes_.end()) return {-1, known->second, term.output};
    PairPattern::Node node;
    node.op = terms_.op_of(term.node);
    node.results = terms_.node(term.node).results;
    for (std::int32_t in : terms_.inputs(term.node)) node.inputs.push_back(value(in));
    out_.nodes.push_back(std::move(node));
    int index = static_cast<int>(out_.nodes.size()) - 1;
    nodes_[term.node] = index;
    return {-1, index, term.output};
  }

  std::string unused(const std::string& name) const {
    std::string unused = name;
    for (int i = 2; std::find(out_.values.begin(), out_.values.end(), unused) != out_.values.end(); ++i)
      unused = fmt::format("{}{}", name, i);
    return unused;
  }

  const TermTable& terms_;
  const std::vector<std::string>& names_;
  PairPattern out_;
  std::map<std::int32_t, int> variables_, nodes_;
  bool fixed_ = false, unbound_ = false;
};

class PatternPrinter {
 public:
  PatternPrinter(const PairPattern& pattern, const AttributeTexts& attributes) : p_(pattern), attributes_(attributes) {
    std::vector<int> uses(p_.nodes.size(), 0);
    auto use = [&](PatternValue v) {
      if (v.node >= 0) ++uses[static_cast<std::size_t>(v.node)];
    };
    for (const auto& node : p_.nodes)
      for (PatternValue v : node.inputs) use(v);
    for (PatternValue v : p_.source_outputs) use(v);
    for (PatternValue v : p_.target_outputs) use(v);
    int named = 0;
    names_.resize(p_.nodes.size());
    for (std::size_t n = 0; n < p_.nodes.size(); ++n)
      if (uses[n] > 1 || p_.nodes[n].results > 1)
        for (int r = 0; r < p_.nodes[n].results; ++r) names_[n].push_back(fmt::format("r{}", ++named));
  }

  std::string run(const std::string& name, const std::vector<std::string>& conditions) const {
    std::vector<std::string> lets;
    for (std::size_t n = 0; n < p_.nodes.size(); ++n)
      if (!names_[n].empty()) lets.push_back(fmt::format("{} = {}", tuple(names_[n]), call(n)));
    std::string text = fmt::format("rule {}\n", name);
    if (!lets.empty()) text += fmt::format("  let {}\n", join(lets));
    text += fmt::format("  {} => {}\n", side(p_.source_outputs), side(p_.target_outputs));
    if (!conditions.empty()) text += fmt::format("  where {}\n", join(conditions));
    return text;
  }

 private:
  static std::string tuple(const std::vector<std::string>& parts) {
    return parts.size() == 1 ? parts[0] : fmt::format("({})", join(parts));
  }
  std::string value(PatternValue v) const {
    if (v.variable >= 0) return p_.values[static_cast<std::size_t>(v.variable)];
    auto n = static_cast<std::size_t>(v.node);
    return names_[n].empty() ? call(n) : names_[n][static_cast<std::size_t>(v.output)];
  }
  std::string call(std::size_t n) const {
    const PairPattern::Node& node = p_.nodes[n];
    auto specs = node.op.op->attributes();
    std::vector<std::string> arguments;
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (specs[i].required) arguments.push_back(attributes_[n][i]);
    for (PatternValue v : node.inputs) arguments.push_back(value(v));
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (!specs[i].required && !attributes_[n][i].empty())
        arguments.push_back(fmt::format("{}={}", specs[i].name, attributes_[n][i]));
    return fmt::format("{}({})", node.op.op->name(), join(arguments));
  }
  std::string side(const std::vector<PatternValue>& outputs) const {
    std::vector<std::string> parts;
    for (PatternValue v : outputs) parts.push_back(value(v));
    return tuple(parts);
  }

  const PairPattern& p_;
  const AttributeTexts& attributes_;
  std::vector<std::vector<std::string>> names_;
};

}  // namespace

std::optional<PairPattern> pair_pattern(const TermTable& terms, TermGraph source, TermGraph target,
                                        const std::vector<std::string>& names) {
  return PatternBuilder(terms, names).run(source, target);
}

AttributeTexts literal_attributes(const PairPattern& pattern) {
  AttributeTexts texts;
  for (const PairPattern::Node& node : pattern.nodes) {
    auto specs = node.op.op->attributes();
    texts.emplace_back(specs.size());
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const AttributeValue& value = node.op.attributes[i];
      if (!specs[i].required && value == specs[i].fallback) continue;
      const auto* text = std::get_if<std::string>(&value);
      texts.back()[i] = text ? quote_text(*text) : to_string(value);
    }
  }
  return texts;
}

std::string rule_text(const PairPattern& pattern, const std::string& name, const AttributeTexts& attributes,
                      const std::vector<std::string>& conditions) {
  return PatternPrinter(pattern, attributes).run(name, conditions);
}

std::string rule_name(const Rule& rule) {
  // Operators from the results down, each once; a dimension that is a literal with them.
  auto operators = [&](const std::vector<PatternValue>& outputs) {
    std::vector<bool> seen(rule.nodes.size(), false);
    std::vector<std::string> names;
    std::vector<PatternValue> stack(outputs.rbegin(), outputs.rend());
    while (!stack.empty()) {
      PatternValue v = stack.back();
      stack.pop_back();
      if (v.node < 0 || seen[static_cast<std::size_t>(v.node)]) continue;
      seen[static_cast<std::size_t>(v.node)] = true;
      const PatternNode& node = rule.nodes[static_cast<std::size_t>(v.node)];
      names.push_back(node.op->name());
      auto specs = node.op->attributes();
      if (!specs.empty() && specs[0].name == "dim" && node.attributes[0]->kind == Expression::Kind::constant)
        names.back() += "_" + to_string(node.attributes[0]->constant);
      stack.insert(stack.end(), node.inputs.rbegin(), node.inputs.rend());
    }
    return names;
  };
  std::vector<std::string> source = operators(rule.source_outputs), target = operators(rule.target_outputs);
  auto of = [](const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, "_of_")); };
  if (target.empty()) return of(source);
  if (source.size() == 2 && target.size() == 2 && source[0] == target[1] && source[1] == target[0])
    return source[0] == source[1] ? fmt::format("commute_{}s", source[0])
                                  : fmt::format("commute_{}_{}", source[0], source[1]);
  if (source.size() == 2 && source[0] == source[1] && target.size() == 1 && target[0] == source[0])
    return fmt::format("merge_{}s", source[0]);
  std::string name = of(source) + "_to_" + of(target);
  if (name == "add_to_reduce_of_stack_partials") return "add_as_reduction";
  if (name == "reduce_of_stack_partials_to_add") return "reduction_as_add";
  return name;
}

std::string pattern_subject(const Rule& rule) {
  // The first subject that has an operator of the rule.
  static const std::vector<std::pair<std::string, std::vector<std::string>>> kSubjects = {
      {"attention", {"attention", "dot_interaction", "masked_softmax", "causal_softmax"}},
      {"embedding", {"embedding", "gather", "top1_dispatch"}},
      {"conv2d", {"conv2d"}},
      {"matmul", {"matmul", "batch_matmul"}},
      {"normalization", {"norm", "moments", "softmax"}},
      {"losses", {"entropy", "squared_error"}},
      {"pooling", {"pool2d"}},
      {"reductions", {"reduce_sum", "reduce_mean", "reduce_max", "broadcast_like", "argmax"}},
      {"concat_split", {"concat", "split"}},
      {"movement", {"transpose", "reshape", "slice", "pad"}},
  };
  for (const auto& [subject, words] : kSubjects)
    for (const PatternNode& node : rule.nodes)
      for (const std::string& word : words)
        if (node.op->category() == OpCategory::compute && node.op->name().find(word) != std::string::npos)
          return subject;
  for (const PatternNode& node : rule.nodes)
    if (node.op->category() == OpCategory::compute) return "elementwise";
  return "parallelization";
}

}  // namespace unity
