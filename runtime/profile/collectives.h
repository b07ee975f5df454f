// Which collectives of a machine are measured where no plan says it (measure.h measures them).
#pragma once

#include <string>
#include <vector>

#include "core/machine/topology.h"
#include "core/plan/program.h"

namespace unity {

// For each level of the machine, outermost first, inside one part of each level further out: of 2, 4, .. and all of its
// parts all devices, and one device of each. No two have the same shape (group_shape); the largest is the machine.
std::vector<std::vector<DeviceId>> groups_to_measure(const Topology& topology);

constexpr std::int64_t kSmallestCollective = 4 << 10;
// 4 KiB, 16 KiB, .. up to the largest.
std::vector<Bytes> sizes_to_measure(Bytes largest);

// A Program of one collective, among all devices of the machine, of about `bytes` as measured collectives count them:
// of the whole tensor; of an all_to_all what goes from all to all.
Program collective_of(CollectiveKind kind, const std::vector<DeviceId>& group, Bytes bytes, const Topology& topology);

// All kinds that a group can do: sends are between two.
std::vector<CollectiveKind> kinds_to_measure(std::size_t devices);

}  // namespace unity
