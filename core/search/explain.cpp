#include "core/search/explain.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/text.h"

namespace unity {
namespace {

std::string block_of(const std::string& label) {
  std::size_t dot = label.rfind('.');
  return dot == std::string::npos ? "" : label.substr(0, dot);
}

std::string leaf_of(const std::string& label) {
  std::size_t dot = label.rfind('.');
  return dot == std::string::npos ? label : label.substr(dot + 1);
}

// The word for splitting an axis of this operator.
std::string word_for(const Pcg& pcg, const Node& n, std::size_t axis) {
  const AxisTable& t = *n.table;
  auto walks_at = [&](const OperandAxes& operand) {
    for (std::size_t d = 0; d < operand.dims.size(); ++d)
      if (split_axis(t, operand.dims[d]) == static_cast<int>(axis)) return static_cast<int>(d);
    return -1;
  };
  int out = t.outputs.empty() ? -1 : walks_at(t.outputs[0]);
  std::size_t rank = t.outputs.empty() ? 0 : t.outputs[0].dims.size();
  bool weights = std::any_of(n.inputs.begin(), n.inputs.end(), [&](ValueRef v) {
    while (pcg[v.node].is_parallelization()) v = pcg[v.node].inputs[0];
    return pcg[v.node].op->name() == "weight";
  });
  // An axis at dimension 0 of the first operand that is not a weight is the batch.
  int in0 = t.inputs.empty() ? -1 : walks_at(t.inputs[0]);
  bool first_is_data = !n.inputs.empty() && !(weights && n.op->name() == "embedding" && in0 < 0);
  if (first_is_data && in0 == 0 && !t.inputs[0].dims.empty() && (out == 0 || out < 0) &&
      !(rank == 1 && weights && n.op->name() != "matmul"))
    return "data";
  if (t.axes[axis].role == AxisRole::reduction) return "by reduction";
  if (t.axes[axis].role == AxisRole::window) return "spatial";
  if (n.op->name() == "matmul" && t.axes[axis].name == "n") return "by output";
  if (rank == 4 && out == 1) return "by head";
  if (rank == 4 && out == 2 && n.op->name() == "reshape") return "by head";
  if (rank >= 3 && out == 1) return "by sequence";
  if (out == static_cast<int>(rank) - 1) return "by output";
  return "along " + t.axes[axis].name;
}

}  // namespace

std::string without_indices(const std::string& label) {
  std::string text;
  std::size_t begin = 0;
  while (begin <= label.size()) {
    std::size_t end = std::min(label.find('.', begin), label.size());
    std::string part = label.substr(begin, end - begin);
    bool number = !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    text += (begin ? "." : "") + (number ? std::string("*") : part);
    begin = end + 1;
  }
  return text;
}

std::vector<std::string> parallelism_in_words(const Pcg& pcg, NodeId node) {
  const Node& n = pcg[node];
  std::vector<std::string> words;
  if (!n.is_compute()) return words;
  Sharding sharding = node_sharding(pcg, node);
  for (std::size_t a = 0; a < sharding.degrees.size(); ++a) {
    if (sharding.degrees[a] > 1) words.push_back(fmt::format("{}-way {}", sharding.degrees[a], word_for(pcg, n, a)));
    if (sharding.micro[a] > 1) words.push_back(fmt::format("{} micro-batches", sharding.micro[a]));
  }
  if (sharding.passing > 1) words.push_back(fmt::format("on {} partial sums", sharding.passing));
  if (sharding.copies > 1) words.push_back(fmt::format("computed {} times", sharding.copies));
  return words;
}

std::vector<BlockExplanation> explain_blocks(const Pcg& pcg) {
  struct Block {
    std::string label;
    std::vector<std::pair<std::string, std::vector<std::string>>> groups;  // how -> operators
  };
  std::vector<Block> blocks;
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& n = pcg.nodes()[i];
    if (!n.is_compute()) continue;
    std::string label = block_of(n.name);
    auto [it, inserted] = index.try_emplace(label, blocks.size());
    if (inserted) blocks.push_back({label, {}});
    std::vector<std::string> words = parallelism_in_words(pcg, NodeId(static_cast<std::int64_t>(i)));
    std::string how = words.empty() ? "on one device" : join(words);
    auto& groups = blocks[it->second].groups;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == how; });
    if (group == groups.end()) group = groups.insert(groups.end(), {how, {}});
    group->second.push_back(leaf_of(n.name));
  }
  std::vector<BlockExplanation> result;
  std::map<std::pair<std::string, std::vector<std::string>>, std::size_t> seen;
  for (const Block& block : blocks) {
    std::vector<std::string> sentences;
    for (const auto& [how, operators] : block.groups) sentences.push_back(fmt::format("{}: {}", join(operators), how));
    std::string name = without_indices(block.label);
    auto [it, inserted] = seen.try_emplace({name, sentences}, result.size());
    if (inserted)
      result.push_back({name, 1, sentences});
    else
      ++result[it->second].count;
  }
  return result;
}

std::vector<RuleSummary> summarise_derivation(const Plan& plan) {
  std::vector<RuleSummary> rules;
  std::map<std::tuple<std::string, int, std::string>, std::size_t> index;
  for (const DerivationStep& s : plan.derivation) {
    std::string where = without_indices(s.where);
    auto [it, inserted] = index.try_emplace({s.rule, s.degree, where}, rules.size());
    if (inserted)
      rules.push_back({s.rule, s.degree, where, 1});
    else
      ++rules[it->second].count;
  }
  return rules;
}

std::string explain_plan(const Plan& plan) {
  std::string text = fmt::format("Plan for {} on {} ({} devices, {} nodes), found by strategy {}\n", plan.model.name,
                                 plan.topology, plan.devices, plan.nodes, plan.search.strategy);
  text += fmt::format("  predicted: {} per iteration of {} samples, {} communicated, {} on the fullest device\n",
                      to_string(plan.prediction.iteration), plan.global_batch, to_string(plan.prediction.communicated),
                      to_string(plan.prediction.peak_memory));
  text += fmt::format("  search: {} candidates in {:.1f} s; stopped: {}\n\nParallelism, block by block\n",
                      plan.search.candidates, plan.search.seconds, plan.search.stopped_because);
  for (const BlockExplanation& block : explain_blocks(plan.pcg)) {
    text += fmt::format("  {}{}\n", block.count > 1 ? fmt::format("{} x ", block.count) : "",
                        block.block.empty() ? "(top level)" : block.block);
    for (const std::string& s : block.sentences) text += "    " + s + "\n";
  }
  text += "\nRules applied\n";
  if (plan.derivation.empty()) text += "  none: the model as it is\n";
  for (const RuleSummary& r : summarise_derivation(plan))
    text += fmt::format("  {}{}{}  at {}\n", r.count > 1 ? fmt::format("{} x ", r.count) : "", r.rule,
                        r.degree > 0 ? fmt::format(" (degree {})", r.degree) : "", r.where);
  return text;
}

}  // namespace unity
