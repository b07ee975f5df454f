#include "docs/examples/panel/view.h"

#include <algorithm>
#include <map>

namespace unity::gui {

std::vector<KindCount> count_kinds(const Pcg& pcg) {
  std::map<std::string, std::int64_t> counts;
  for (const Node& node : pcg.nodes())
    if (node.is_compute()) ++counts[node.op->name()];
  std::vector<KindCount> list;
  for (const auto& [kind, count] : counts) list.push_back({kind, count});
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
  return list;
}

}  // namespace unity::gui
