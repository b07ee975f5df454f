#include "core/plan/collective_key.h"

#include <set>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/machine/measured_collectives.h"

namespace unity {

std::string collective_name(CollectiveKind kind, std::span<const DeviceId> group, const Topology& topology) {
  return fmt::format("{} of {}", to_string(kind), group_shape(topology, group));
}

CollectiveKey collective_key(const Communication& c, const Topology& topology) {
  std::vector<DeviceId> group;
  for (const Participant& p : c.participants) group.push_back(p.device);
  CollectiveKey key{collective_name(c.kind, group, topology),
                    static_cast<double>(elements_moved(c) * size_of(c.dtype))};
  if (c.kind != CollectiveKind::all_to_all) return key;
  std::set<std::pair<std::int32_t, std::int32_t>> pairs;
  for (const Exchange& e : c.exchanges)
    if (e.from != e.to) pairs.emplace(e.from, e.to);
  std::size_t all = group.size() * (group.size() - 1);
  if (pairs.size() < all) key.name += fmt::format(", {} of {} pairs", pairs.size(), all);
  return key;
}

}  // namespace unity
