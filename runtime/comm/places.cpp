#include "runtime/comm/places.h"

#include <cstring>
#include <map>
#include <set>
#include <span>

#include "core/base/error.h"

namespace unity {

std::string misplaced(Processes& processes, const Topology& topology) {
  if (processes.size() == 1) return {};
  const int mine = processes.node();
  std::vector<int> hosts;  // by rank
  for (const std::vector<std::byte>& bytes : processes.all_gather(std::as_bytes(std::span(&mine, 1)), "the hosts")) {
    UNITY_CHECK(bytes.size() == sizeof(int), "a process sent {} bytes", bytes.size());
    std::memcpy(&hosts.emplace_back(), bytes.data(), sizeof(int));
  }
  const auto devices = static_cast<int>(topology.device_count());
  if (topology.levels.empty() || std::set<int>(hosts.begin(), hosts.end()).size() == 1) return {};
  std::map<int, DeviceId> first;  // of each part
  for (int d = 0; d < devices; ++d) {
    const DeviceId before = first.try_emplace(topology.part(0, DeviceId(d)), DeviceId(d)).first->second;
    const int a = processes.owner(before, devices), b = processes.owner(DeviceId(d), devices);
    if (hosts[static_cast<std::size_t>(a)] == hosts[static_cast<std::size_t>(b)]) continue;
    return fmt::format(
        "devices {} and {} are of one {} of topology '{}', but ranks {} and {} are on different hosts: what is "
        "predicted "
        "is another machine (as in mpirun --map-by ppr:N:node, the ranks of a host have to be in a row)",
        before, d, topology.levels[0].name, topology.name, a, b);
  }
  return {};
}

}  // namespace unity
