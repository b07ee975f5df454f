#include "runtime/profile/collectives.h"

#include <algorithm>
#include <set>

#include "core/machine/measured_collectives.h"
#include "core/plan/collective_algorithms.h"
#include "runtime/profile/single_task.h"

namespace unity {

std::vector<std::vector<DeviceId>> groups_to_measure(const Topology& topology) {
  std::vector<std::vector<DeviceId>> groups;
  std::set<std::string> shapes;
  auto add = [&](std::vector<DeviceId> group) {
    if (group.size() > 1 && shapes.insert(group_shape(topology, group)).second) groups.push_back(std::move(group));
  };
  std::vector<DeviceId> inside = first_devices(static_cast<int>(topology.device_count()));
  if (topology.levels.empty()) add(inside);
  for (std::size_t level = 0; level < topology.levels.size(); ++level) {
    std::map<int, std::vector<DeviceId>> parts;
    for (DeviceId d : inside) parts[topology.part(level, d)].push_back(d);
    std::vector<std::vector<DeviceId>> wholes, ones;  // of the first 2, 4, .. parts, and of all
    std::vector<DeviceId> whole, one;
    std::size_t taken = 0, next = 2;
    for (const auto& [part, devices] : parts) {
      whole.insert(whole.end(), devices.begin(), devices.end());
      one.push_back(devices.front());
      if (++taken != next && taken != parts.size()) continue;
      wholes.push_back(whole), ones.push_back(one);
      next = taken == next ? 2 * next : next;
    }
    for (auto* list : {&wholes, &ones})
      for (auto group = list->rbegin(); group != list->rend(); ++group) add(*group);
    inside = parts.begin()->second;
  }
  return groups;
}

std::vector<Bytes> sizes_to_measure(Bytes largest) {
  std::vector<Bytes> sizes;
  for (std::int64_t bytes = kSmallestCollective; bytes <= largest.count; bytes *= 4) sizes.push_back({bytes});
  return sizes;
}

Program collective_of(CollectiveKind kind, const std::vector<DeviceId>& group, Bytes bytes, const Topology& topology) {
  std::int64_t elements = bytes.count / size_of(DType::f32);
  if (kind == CollectiveKind::all_to_all) elements /= static_cast<std::int64_t>(group.size());
  Program p = collective_program(kind, group, elements);
  p.name = "collective";
  p.devices = static_cast<int>(topology.device_count());
  choose_algorithms(p, CollectiveAlgorithms(topology));
  return p;
}

std::vector<CollectiveKind> kinds_to_measure(std::size_t devices) {
  std::vector<CollectiveKind> kinds = {CollectiveKind::all_reduce,     CollectiveKind::all_gather,
                                       CollectiveKind::reduce_scatter, CollectiveKind::all_to_all,
                                       CollectiveKind::broadcast,      CollectiveKind::reduce};
  if (devices == 2) kinds.push_back(CollectiveKind::send);
  return kinds;
}

}  // namespace unity
