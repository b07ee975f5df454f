// From what a network recorded of its links to what a Trace says of those of the machine.
#pragma once

#include <cstdint>
#include <span>

#include "core/machine/topology.h"
#include "core/trace/trace.h"
#include "simulator/network/network.h"

namespace unity {

// Adds links and their use to the trace. `classes`: by link of the topology its number in the record, where the network
// was folded; empty: its own. Of several samples of a link at one time the last counts.
void add_links(const LinkRecord& record, std::span<const std::uint32_t> classes, const Topology& topology,
               Trace& trace);

// "node0.nic -> fabric"
std::string link_name(const Topology& topology, LinkId link);

}  // namespace unity
