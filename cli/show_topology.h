// unity show TOPOLOGY: levels, devices, switches, links, bisection bandwidth and examples of routes.
#pragma once

#include "core/machine/topology.h"

namespace unity::cli {

void show_topology(const Topology& topology, bool json);

}  // namespace unity::cli
