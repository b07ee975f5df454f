// Whether the processes are where the topology has their devices.
#pragma once

#include <string>

#include "core/machine/topology.h"
#include "runtime/comm/processes.h"

namespace unity {

// All processes call it. Of processes on several hosts: which two devices are in one part of the topology's outermost
// level (a node), but on different hosts, and what to do; empty: none are, or there is one host.
std::string misplaced(Processes& processes, const Topology& topology);

}  // namespace unity
