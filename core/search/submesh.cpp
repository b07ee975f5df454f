#include "core/search/submesh.h"

#include <map>

namespace unity {
namespace {

constexpr int kFewNodes = 8;  // beyond, stages of several nodes have a divisor of their number

}  // namespace

std::vector<Submesh> submeshes(const Topology& topology, int devices) {
  std::vector<int> node_ends;  // by node: one past its last device
  for (int d = 1; d <= devices; ++d)
    if (d == devices || topology.distance_level(DeviceId(d - 1), DeviceId(d)) == 0) node_ends.push_back(d);
  std::map<std::pair<int, std::vector<int>>, Submesh> kinds;
  auto add = [&](int start, int width) {
    std::vector<int> apart;
    for (int d = start + 1; d < start + width; ++d)
      apart.push_back(topology.distance_level(DeviceId(d - 1), DeviceId(d)));
    Submesh& kind = kinds[{width, apart}];
    kind.width = width;
    kind.starts.resize(static_cast<std::size_t>(devices), false);
    kind.starts[static_cast<std::size_t>(start)] = true;
  };
  int nodes = static_cast<int>(node_ends.size());
  for (int n = 0; n < nodes; ++n) {
    int begin = n == 0 ? 0 : node_ends[static_cast<std::size_t>(n - 1)],
        size = node_ends[static_cast<std::size_t>(n)] - begin;
    for (int width = 1; width < size; ++width)
      for (int start = begin; size % width == 0 && start + width <= begin + size; ++start) add(start, width);
    for (int more = 1; n + more <= nodes; ++more)
      if (more <= kFewNodes || nodes % more == 0) add(begin, node_ends[static_cast<std::size_t>(n + more - 1)] - begin);
  }
  std::vector<Submesh> all;
  for (auto& [key, kind] : kinds) all.push_back(std::move(kind));
  return all;
}

}  // namespace unity
