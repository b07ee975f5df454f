#include "core/graph/export_dot.h"

#include <algorithm>
#include <map>

#include "core/base/text.h"
#include "core/graph/lexer.h"

namespace unity {
namespace {

// The label without its last component, cut after its first number: "encoder.3.ffn.in.matmul" is in "encoder.3".
std::string cluster_of(const std::string& label) {
  auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t begin = 0;
  for (std::size_t dot = label.find('.'); dot != std::string::npos; begin = dot + 1, dot = label.find('.', begin))
    if (dot > begin && std::all_of(label.begin() + static_cast<std::ptrdiff_t>(begin),
                                   label.begin() + static_cast<std::ptrdiff_t>(dot), is_digit))
      return label.substr(0, dot);
  std::size_t first = label.find('.');
  return first == std::string::npos ? std::string() : label.substr(0, first);
}

std::string describe(const Node& node) {
  std::vector<std::string> attributes;
  auto specs = node.op->attributes();
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (!node.is_leaf() && (specs[i].required || node.attributes[i] != specs[i].fallback))
      attributes.push_back(specs[i].required ? to_string(node.attributes[i])
                                             : specs[i].name + "=" + to_string(node.attributes[i]));
  std::string call = node.op->name() + (attributes.empty() ? "" : "(" + join(attributes) + ")");
  return node.name.empty() ? call : node.name + "\n" + call;
}

std::string node_line(std::size_t i, const Node& node) {
  const char* style = node.is_leaf()              ? "shape=ellipse, fillcolor=\"#e8eef7\""
                      : node.is_parallelization() ? "shape=hexagon, fillcolor=\"#fdebd0\""
                                                  : "shape=box, fillcolor=\"#eaf5ea\"";
  return fmt::format("n{} [label={}, {}];\n", i, quote_text(describe(node)), style);
}

}  // namespace

std::string to_dot(const Pcg& pcg, const DotOptions& options) {
  std::string dot = fmt::format(
      "digraph {} {{\n  rankdir=TB;\n  node [style=filled, fontname=\"Helvetica\", fontsize=10];\n"
      "  edge [fontname=\"Helvetica\", fontsize=9];\n",
      quote_text(pcg.name()));
  auto shown = [&](const Node& node) { return options.leaves || !node.is_leaf(); };
  std::map<std::string, std::vector<std::size_t>> clusters;
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (shown(pcg.nodes()[i])) clusters[options.clusters ? cluster_of(pcg.nodes()[i].name) : ""].push_back(i);
  int number = 0;
  for (const auto& [cluster, nodes] : clusters) {
    bool boxed = !cluster.empty() && nodes.size() > 1;
    if (boxed)
      dot += fmt::format("  subgraph cluster_{} {{\n    label={};\n    color=gray70;\n", number++, quote_text(cluster));
    for (std::size_t i : nodes) dot += (boxed ? "    " : "  ") + node_line(i, pcg.nodes()[i]);
    if (boxed) dot += "  }\n";
  }
  for (std::size_t i = 0; i < pcg.size(); ++i)
    for (ValueRef v : pcg.nodes()[i].inputs)
      if (shown(pcg[v.node]))
        dot += fmt::format("  n{} -> n{} [label={}];\n", v.node, i, quote_text(to_string(pcg.shape(v))));
  for (std::size_t o = 0; o < pcg.outputs().size(); ++o) {
    ValueRef v = pcg.outputs()[o];
    dot += fmt::format("  out{} [label=\"output {}\", shape=plaintext, style=\"\"];\n  n{} -> out{} [label={}];\n", o,
                       o, v.node, o, quote_text(to_string(pcg.shape(v))));
  }
  return dot + "}\n";
}

}  // namespace unity
