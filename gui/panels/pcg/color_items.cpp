#include <algorithm>
#include <map>

#include "core/models/summary.h"
#include "gui/panels/pcg/view.h"

namespace unity::gui {
namespace {

constexpr int kLayoutCategory = 1, kLeafCategory = 6;

// A category for each family of operators, by what their axis tables say, not by name.
struct Family {
  int category;
  const char* name;
};

Family family_of(const Node& node) {
  if (node.is_leaf()) return {kLeafCategory, "inputs and weights"};
  if (node.is_parallelization()) return {kLayoutCategory, "parallelization"};
  bool reduces = false, window = false;
  if (node.table) {
    for (const Axis& axis : node.table->axes) {
      reduces = reduces || axis.role == AxisRole::reduction;
      window = window || axis.role == AxisRole::window;
    }
    if (multiply_adds(node) > 0) return {0, "convolutions, products"};
    if (window) return {4, "windows"};
    if (node.table->flops_per_point == 0) return {7, "moves of data"};  // lookups, too
  }
  return reduces ? Family{3, "reductions"} : Family{2, "element by element"};
}

template <class Of>
void amounts(ItemColors& colors, const PcgView& view, const PlanPrediction& prediction, const char* what, Of of) {
  double total = 0;
  for (const NodeCost& cost : prediction.nodes) total += static_cast<double>(of(cost).count);
  std::vector<decltype(of(NodeCost()))> sums(view.items.size());
  for (std::size_t i = 0; i < view.items.size(); ++i)
    for (NodeId id : view.items[i].nodes) sums[i] += of(prediction.nodes[id.index()]);
  double most = 1;
  for (auto sum : sums) most = std::max(most, static_cast<double>(sum.count));
  for (std::size_t i = 0; i < sums.size(); ++i) {
    auto count = static_cast<double>(sums[i].count);
    colors.amount[i] = count / most;
    colors.text[i] = fmt::format("{} {}{}", what, to_string(sums[i]),
                                 total > 0 ? fmt::format(", {:.1f}%", 100 * count / total) : std::string());
  }
  colors.low = "0";
  colors.high = to_string(decltype(of(NodeCost())){static_cast<std::int64_t>(most)});
}

}  // namespace

std::vector<std::string> colorings() { return {"kind", "time", "communication", "memory", "device"}; }

ItemColors color_items(const Pcg& pcg, const PcgView& view, PcgColoring coloring, const PlanPrediction* prediction,
                       const Plan* plan) {
  ItemColors colors;
  colors.amount.assign(view.items.size(), 0);
  colors.category.assign(view.items.size(), -1);
  colors.text.assign(view.items.size(), "");
  bool costs = prediction && prediction->whole && prediction->nodes.size() == pcg.size();
  if (costs && coloring == PcgColoring::time) {
    amounts(colors, view, *prediction, "computes for", [](const NodeCost& c) { return c.compute; });
  } else if (costs && coloring == PcgColoring::communication) {
    amounts(colors, view, *prediction, "communicates for", [](const NodeCost& c) { return c.communication; });
  } else if (costs && coloring == PcgColoring::memory) {
    amounts(colors, view, *prediction, "buffers of", [](const NodeCost& c) { return c.memory; });
  } else if (plan && coloring == PcgColoring::device) {
    // A category for each set of devices, in the order of first use.
    std::map<std::pair<int, int>, int> numbers;
    for (std::size_t i = 0; i < view.items.size(); ++i) {
      int first = -1, tasks = 0;
      for (NodeId id : view.items[i].nodes) {
        if (pcg[id].is_parallelization()) continue;
        const MachineMapping& mapping = plan->mappings[id.index()];
        int count = task_count(node_grid(pcg, id));
        if (count > tasks || (count == tasks && mapping.start < first)) first = mapping.start, tasks = count;
      }
      if (tasks == 0) continue;
      auto [number, fresh] = numbers.emplace(std::pair(first, tasks), static_cast<int>(numbers.size()));
      colors.text[i] =
          tasks == 1 ? fmt::format("on device {}", first) : fmt::format("{} tasks from device {}", tasks, first);
      if (fresh) colors.legend.emplace_back(number->second, colors.text[i]);
      colors.category[i] = number->second;
    }
  } else {
    std::map<int, std::string> seen;
    for (std::size_t i = 0; i < view.items.size(); ++i) {
      std::map<int, int> votes;
      for (NodeId id : view.items[i].nodes) {
        Family family = family_of(pcg[id]);
        // Of what belongs to an operator, and of a block, the operators count.
        votes[family.category] += view.items[i].nodes.size() == 1 ? 1 : pcg[id].is_compute() ? 1000 : 1;
        if (view.items[i].nodes.size() == 1 || pcg[id].is_compute()) seen[family.category] = family.name;
      }
      colors.category[i] = std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) {
                             return a.second < b.second;
                           })->first;
    }
    for (const auto& [category, name] : seen) colors.legend.emplace_back(category, name);
  }
  return colors;
}

}  // namespace unity::gui
