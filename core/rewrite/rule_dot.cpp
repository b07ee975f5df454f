#include "core/rewrite/rule_dot.h"

#include <set>

#include "core/base/text.h"
#include "core/graph/lexer.h"

namespace unity {
namespace {

const char* style_of(const Operator& op) {
  return op.category() == OpCategory::parallelization ? "shape=hexagon, fillcolor=\"#fdebd0\""
                                                      : "shape=box, fillcolor=\"#eaf5ea\"";
}

class Drawing {
 public:
  explicit Drawing(const Rule& rule) : rule_(rule) {}

  std::string run() {
    std::string conditions;
    for (const Condition& c : rule_.conditions)
      conditions += (conditions.empty() ? "\nwhere " : ", ") + print(c, rule_);
    text_ = fmt::format(
        "digraph {} {{\n  label={};\n  labelloc=t;\n  rankdir=TB;\n  fontname=\"Helvetica\";\n"
        "  node [style=filled, fontname=\"Helvetica\", fontsize=10];\n",
        quote_text(rule_.name), quote_text(rule_.name + conditions));
    side("source", rule_.source_outputs, 0);
    side("target", rule_.target_outputs, 1);
    return text_ + "}\n";
  }

 private:
  // One side with variables of its own, so that the sides stand apart.
  void side(const char* name, const std::vector<PatternValue>& outputs, int number) {
    side_ = name;
    drawn_.clear();
    text_ += fmt::format("  subgraph cluster_{} {{\n    label={};\n    color=gray70;\n", number, name);
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      std::string from = value(outputs[o]);
      text_ +=
          fmt::format("    {0}_out{1} [label=\"result {2}\", shape=plaintext, style=\"\"];\n    {3} -> {0}_out{1};\n",
                      name, o, o + 1, from);
    }
    text_ += "  }\n";
  }

  // Draws what is not drawn yet, and gives the name of its node.
  std::string value(PatternValue v) {
    if (v.variable >= 0) {
      std::string id = fmt::format("{}_x{}", side_, v.variable);
      if (drawn_.insert(id).second)
        text_ += fmt::format("    {} [label={}, shape=ellipse, fillcolor=\"#e8eef7\"];\n", id,
                             quote_text(rule_.values[static_cast<std::size_t>(v.variable)]));
      return id;
    }
    const PatternNode& node = rule_.nodes[static_cast<std::size_t>(v.node)];
    std::string id = fmt::format("{}_n{}", side_, v.node);
    if (!drawn_.insert(id).second) return id;
    text_ += fmt::format("    {} [label={}, {}];\n", id, quote_text(in_words(rule_, node)), style_of(*node.op));
    for (PatternValue in : node.inputs) {
      std::string from = value(in);
      text_ += fmt::format("    {} -> {};\n", from, id);
    }
    return id;
  }

  const Rule& rule_;
  std::string text_, side_;
  std::set<std::string> drawn_;
};

}  // namespace

std::string in_words(const Rule& rule, const PatternNode& node) {
  auto specs = node.op->attributes();
  std::vector<std::string> attributes;
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (node.attributes[i])
      attributes.push_back((specs[i].required ? "" : specs[i].name + "=") + print(*node.attributes[i], rule));
  return node.op->name() + (attributes.empty() ? "" : "(" + join(attributes) + ")");
}

std::string to_dot(const Rule& rule) { return Drawing(rule).run(); }

}  // namespace unity
