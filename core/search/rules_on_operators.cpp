#include "core/search/rules_on_operators.h"

#include "core/rewrite/library.h"

namespace unity {

bool is_product(const Operator& op) {
  return op.name() == "matmul" || op.name() == "conv2d" || op.name() == "batch_matmul";
}

Names kinds_in_sources(const std::vector<Rule>& rules) {
  Names names;
  for (const Rule& rule : rules)
    for (std::size_t n = 0; n < rule.source_nodes; ++n)
      if (rule.nodes[n].op->category() == OpCategory::compute) names.insert(rule.nodes[n].op->name());
  return names;
}

namespace {

std::multiset<std::string> kinds(const Rule& rule, std::size_t first, std::size_t last) {
  std::multiset<std::string> names;
  for (std::size_t n = first; n < last; ++n)
    if (rule.nodes[n].op->category() == OpCategory::compute) names.insert(rule.nodes[n].op->name());
  return names;
}

void note_products(const Rule& rule, Algebra& algebra) {
  // By source node: the kinds under it.
  std::vector<Names> under(rule.source_nodes);
  for (std::size_t n = 0; n < rule.source_nodes; ++n) {
    for (PatternValue v : rule.nodes[n].inputs) {
      if (v.node < 0) continue;
      auto in = static_cast<std::size_t>(v.node);
      under[n].insert(rule.nodes[in].op->name());
      under[n].insert(under[in].begin(), under[in].end());
    }
    if (is_product(*rule.nodes[n].op)) algebra.seen_through.insert(under[n].begin(), under[n].end());
    for (const char* product : {"matmul", "conv2d", "batch_matmul"})
      if (under[n].contains(product)) algebra.consumers.insert(rule.nodes[n].op->name());
  }
}

}  // namespace

const Algebra& library_algebra() {
  static const Algebra algebra = [] {
    Algebra a;
    for (const RuleFile& file : rule_files())
      for (const Rule& rule : file.rules) {
        if (!rule.algebraic()) continue;
        std::multiset<std::string> from = kinds(rule, 0, rule.source_nodes),
                                   to = kinds(rule, rule.source_nodes, rule.nodes.size());
        for (const std::string& name : from)
          if (from.count(name) != to.count(name)) a.rewritten.insert(name);
        if (file.name != "definitions" && file.name != "named") note_products(rule, a);
      }
    // It is in rules that transpose or pad what is around it, or make it a product's activation; it stays.
    a.seen_through.erase("relu");
    a.consumers.erase("relu");
    return a;
  }();
  return algebra;
}

}  // namespace unity
