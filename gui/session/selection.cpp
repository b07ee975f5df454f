#include "gui/session/selection.h"

#include <algorithm>

namespace unity::gui {

bool Selection::holds(NodeId id) const {
  return kind == Kind::nodes && std::binary_search(nodes.begin(), nodes.end(), id);
}

Selection Selection::of(std::vector<NodeId> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (ids.empty()) return {};
  return {.kind = Kind::nodes, .nodes = std::move(ids)};
}

}  // namespace unity::gui
