#include "core/plan/collective_key.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/machine/measured_collectives.h"

namespace unity {

std::string collective_name(CollectiveKind kind, std::span<const DeviceId> group, const Topology& topology) {
  return fmt::format("{} of {}", to_string(kind), group_shape(topology, group));
}

std::int64_t elements_in_steps(const Communication& c) {
  if (c.kind != CollectiveKind::all_gather && c.kind != CollectiveKind::reduce_scatter) return elements_moved(c);
  const std::size_t n = c.participants.size();
  std::int64_t largest = 0;
  for (std::size_t p = 0; p < n; ++p) {
    std::int64_t held = 0;  // of all tensors that the call moves
    for (std::size_t i = 0; i < c.part_count(); ++i) held += c.part(i)[p].piece.elements();
    largest = std::max(largest, held);
  }
  return largest * static_cast<std::int64_t>(n);
}

CollectiveKey collective_key(const Communication& c, const Topology& topology) {
  std::vector<DeviceId> group;
  for (const Participant& p : c.participants) group.push_back(p.device);
  CollectiveKey key{collective_name(c.kind, group, topology),
                    static_cast<double>(elements_in_steps(c) * size_of(c.dtype))};
  if (c.kind != CollectiveKind::all_to_all) return key;
  std::set<std::pair<std::int32_t, std::int32_t>> pairs;
  for (const Exchange& e : c.exchanges)
    if (e.from != e.to) pairs.emplace(e.from, e.to);
  std::size_t all = group.size() * (group.size() - 1);
  if (pairs.size() < all) key.name += fmt::format(", {} of {} pairs", pairs.size(), all);
  return key;
}

}  // namespace unity
