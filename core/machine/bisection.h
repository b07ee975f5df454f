// How much a machine's network carries between its halves.
#pragma once

#include "core/machine/topology.h"

namespace unity {

// The most that the first half of the devices (by number, rounded down) can send to the rest at once over all ways,
// each link and each switch's capacity used as far as it goes: a maximum flow (Dinic 1970). Of the halves that there
// are this is the one that the hierarchy makes, not the one that is cheapest to cut. 0 for a single device.
BytesPerSecond bisection_bandwidth(const Topology& topology);

}  // namespace unity
