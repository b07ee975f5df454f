#include "core/search/submesh.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/search/parallelism.h"

namespace unity {
namespace {

constexpr int kFewNodes = 8;  // beyond, stages of several nodes have a divisor of their number

}  // namespace

std::vector<Submesh> submeshes(const Topology& topology, int devices) {
  std::vector<int> node_ends;  // by node: one past its last device
  for (int d = 1; d <= devices; ++d)
    if (d == devices || topology.distance_level(DeviceId(d - 1), DeviceId(d)) == 0) node_ends.push_back(d);
  std::map<std::tuple<int, std::vector<int>, std::vector<std::size_t>>, Submesh> kinds;
  auto add = [&](int start, int width) {
    std::vector<int> apart;
    for (int d = start + 1; d < start + width; ++d)
      apart.push_back(topology.distance_level(DeviceId(d - 1), DeviceId(d)));
    std::vector<std::size_t> specs;
    for (int d = start; d < start + width; ++d) specs.push_back(topology.devices[static_cast<std::size_t>(d)].spec);
    Submesh& kind = kinds[{width, apart, specs}];
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

Resources example(const Submesh& submesh) {
  auto first = std::find(submesh.starts.begin(), submesh.starts.end(), true);
  return {static_cast<int>(first - submesh.starts.begin()), submesh.width};
}

bool may_have_stages(const StrategyInput& input) { return is_allowed({"pipeline"}, input.options.parallelism); }

std::vector<Submesh> stage_submeshes(const StrategyInput& input) {
  std::vector<Submesh> all = submeshes(input.evaluator.cost().topology(), input.devices);
  if (!may_have_stages(input)) std::erase_if(all, [&](const Submesh& s) { return s.width != input.devices; });
  return all;
}

std::vector<int> stage_widths(const StrategyInput& input) {
  std::vector<int> widths;
  for (const Submesh& mesh : stage_submeshes(input)) widths.push_back(mesh.width);
  return widths;
}

}  // namespace unity
