#include "core/rewrite/sampler_facts.h"

#include <algorithm>

namespace unity {

InstanceSampler::Facts::Facts(const Rule& rule) : conditions(rule), nodes(rule.source_nodes) {
  // An operator that selects by indices takes them, and one that moves what another selects by.
  auto results_are_indices = [&](std::size_t n) {
    for (std::size_t m = n + 1; m < rule.source_nodes; ++m)
      for (std::size_t i = 0; i < rule.nodes[m].inputs.size(); ++i)
        if (nodes[m].indices[i] && rule.nodes[m].inputs[i].node == static_cast<int>(n)) return true;
    return false;
  };
  for (std::size_t n = rule.source_nodes; n-- > 0;) {
    const PatternNode& node = rule.nodes[n];
    OfNode& of = nodes[n];
    of.specs = node.op->attributes();
    of.examples = node.op->examples();
    of.indices.assign(node.inputs.size(), results_are_indices(n));
    for (std::size_t i = 0; i < node.inputs.size() && !of.examples.empty(); ++i)
      if (std::all_of(of.examples.begin(), of.examples.end(),
                      [&](const Example& e) { return i < e.inputs.size() && e.inputs[i].dtype == DType::i32; }))
        of.indices[i] = true;
    std::erase_if(of.examples, [&](const Example& e) { return e.inputs.size() != node.inputs.size(); });
    for (Example& e : of.examples) {
      e.attributes = complete_attributes(node.op->name(), of.specs, e.attributes).value();
      auto table = node.op->axes(e.attributes, e.inputs);
      of.tables.push_back(table.ok() ? std::optional(std::move(*table)) : std::nullopt);
    }
  }
}

}  // namespace unity
