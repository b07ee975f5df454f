#include "core/search/parallelism.h"

#include <algorithm>

namespace unity {

const std::vector<std::string>& parallelism_kinds() {
  static const std::vector<std::string> kinds = {"data", "model", "reduction", "head", "spatial", "pipeline"};
  return kinds;
}

std::set<std::string> kinds_of_class(const Pcg& pcg, const std::vector<AxisClass>& classes, std::size_t index) {
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& n = pcg.nodes()[i];
    bool given = n.op->name() == "input" || n.op->name() == "boundary";
    if (!given || n.outputs[0].dims.empty()) continue;
    if (class_of_dimension(pcg, classes, {NodeId(static_cast<std::int64_t>(i)), 0}, 0) == index) return {"data"};
  }
  std::set<std::string> kinds;
  bool heads = false;
  for (const AxisClassMember& m : classes[index].members) {
    const Node& n = pcg[m.node];
    const Axis& axis = n.table->axes[static_cast<std::size_t>(m.axis)];
    const std::string& op = n.op->name();
    bool row = op == "matmul" && axis.name != "n" && axis.role == AxisRole::parallel;
    if (op == "batch_matmul" && axis.role == AxisRole::parallel && axis.name != "m" && axis.name != "n") heads = true;
    if (axis.role == AxisRole::window || row)
      kinds.insert("spatial");
    else if (axis.role == AxisRole::reduction)
      kinds.insert("reduction");
  }
  if (heads) return {"head"};                         // its projections' columns and rows belong to it
  if (kinds.contains("spatial")) return {"spatial"};  // sums over positions (means, batch norm's moments) belong to it
  bool only_reduction =
      std::all_of(classes[index].members.begin(), classes[index].members.end(), [&](const AxisClassMember& m) {
        return pcg[m.node].table->axes[static_cast<std::size_t>(m.axis)].role == AxisRole::reduction;
      });
  if (!only_reduction) kinds.insert("model");
  return kinds;
}

bool is_allowed(const std::set<std::string>& kinds, const std::vector<std::string>& allowed) {
  return allowed.empty() || std::all_of(kinds.begin(), kinds.end(), [&](const std::string& k) {
           return std::find(allowed.begin(), allowed.end(), k) != allowed.end();
         });
}

}  // namespace unity
