#include "core/models/summary.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

namespace unity {
namespace {

bool walks_axis(const OperandAxes& operand, int axis) {
  return std::any_of(operand.dims.begin(), operand.dims.end(), [&](const DimAxes& dim) {
    return std::find(dim.axes.begin(), dim.axes.end(), axis) != dim.axes.end();
  });
}

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// (block group, number within it): "encoder.3.ffn.in" is ("encoder.*", "3"), "head.loss" is ("head", "").
std::pair<std::string, std::string> block_of(const std::string& label) {
  std::istringstream in(label);
  std::string part, prefix, first;
  while (std::getline(in, part, '.')) {
    if (is_number(part)) return {prefix + "*", part};
    if (first.empty()) first = part;
    prefix += part + ".";
  }
  return {first, ""};
}

ModelFacts facts_of(const Node& node, std::int64_t batch) {
  ModelFacts facts;
  if (node.op->name() == "weight") facts.parameters = node.outputs[0].shape().elements();
  if (!node.is_compute()) return facts;
  facts.operators = 1;
  facts.macs_per_sample = multiply_adds(node) / batch;
  for (const ParallelShape& shape : node.outputs) facts.activation_bytes += shape.shape().bytes();
  return facts;
}

void accumulate(ModelFacts& sum, const ModelFacts& facts) {
  sum.parameters += facts.parameters;
  sum.macs_per_sample += facts.macs_per_sample;
  sum.operators += facts.operators;
  sum.activation_bytes += facts.activation_bytes;
}

}  // namespace

std::int64_t multiply_adds(const Node& node) {
  if (!node.is_compute() || !node.table) return 0;
  const AxisTable& table = *node.table;
  if (table.outputs.empty() || table.outputs[0].dims.empty()) return 0;
  bool contraction = false;
  for (std::size_t a = 0; a < table.axes.size(); ++a) {
    auto walks = [&](const OperandAxes& operand) { return walks_axis(operand, static_cast<int>(a)); };
    contraction = contraction || (std::count_if(table.inputs.begin(), table.inputs.end(), walks) >= 2 &&
                                  std::none_of(table.outputs.begin(), table.outputs.end(), walks));
  }
  return contraction ? static_cast<std::int64_t>(flops(table, full_ranges(table)) / 2) : 0;
}

ModelSummary summarize(const Pcg& pcg) {
  ModelSummary summary;
  for (const Node& node : pcg.nodes())
    if (node.op->name() == "input" && !node.outputs[0].dims.empty()) {
      summary.batch = node.outputs[0].dims[0].size;
      break;
    }
  std::map<std::string, std::size_t> group_index;
  std::vector<std::set<std::string>> numbers;
  for (const Node& node : pcg.nodes()) {
    ModelFacts facts = facts_of(node, summary.batch);
    accumulate(summary.facts, facts);
    if (node.op->name() == "input" || node.is_parallelization()) continue;
    auto [group, number] = block_of(node.name);
    auto [at, fresh] = group_index.emplace(group, summary.blocks.size());
    if (fresh) {
      summary.blocks.push_back({group, 1, {}});
      numbers.emplace_back();
    }
    numbers[at->second].insert(number);
    accumulate(summary.blocks[at->second].facts, facts);
  }
  for (std::size_t i = 0; i < summary.blocks.size(); ++i) {
    ModelBlock& block = summary.blocks[i];
    block.count = static_cast<int>(numbers[i].size());
    for (std::int64_t* fact :
         {&block.facts.parameters, &block.facts.macs_per_sample, &block.facts.operators, &block.facts.activation_bytes})
      block.even = block.even && *fact % block.count == 0, *fact /= block.count;
  }
  return summary;
}

}  // namespace unity
