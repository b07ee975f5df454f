#include "core/search/through_layouts.h"

namespace unity {

ValueRef source_of(const Pcg& pcg, ValueRef v) {
  while (pcg[v.node].is_parallelization()) v = pcg[v.node].inputs[0];
  return v;
}

std::vector<std::pair<NodeId, std::size_t>> readers(const Pcg& pcg, const std::vector<std::vector<Pcg::Use>>& uses,
                                                    NodeId leaf) {
  std::vector<std::pair<NodeId, std::size_t>> found;
  std::vector<NodeId> open = {leaf};
  while (!open.empty()) {
    NodeId at = open.back();
    open.pop_back();
    for (const Pcg::Use& u : uses[at.index()]) {
      if (pcg[u.user].is_parallelization())
        open.push_back(u.user);
      else
        found.emplace_back(u.user, static_cast<std::size_t>(u.operand));
    }
  }
  return found;
}

}  // namespace unity
