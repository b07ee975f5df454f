// Rings over the direct links between devices, as NCCL finds them where no switch joins all: in the cube mesh of a
// DGX-1 each GPU has six NVLinks of 25 GB/s, which make three edge-disjoint Hamiltonian cycles, six rings with both
// directions.
#pragma once

#include <span>
#include <vector>

#include "core/machine/topology.h"

namespace unity {

// The most rings through all devices of the group that a search of bounded length finds: each takes one unit of the
// bandwidth of its links, the unit being that of the narrowest link between two devices of the group, and each comes in
// both directions. For 3 to 8 devices; empty for others, and where there is no such ring.
std::vector<std::vector<DeviceId>> direct_rings(const Topology& topology, std::span<const DeviceId> group);

}  // namespace unity
