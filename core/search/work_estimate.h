// A quick guess at what a graph's operators take, for ranking rewritings before they are scored.
#pragma once

#include "core/graph/pcg.h"
#include "core/machine/topology.h"

namespace unity {

// Seconds: over all operators, the sum of launch overhead and the larger of a task's FLOPs by peak and bytes by memory
// bandwidth, on devices of this kind. Nothing overlaps, nothing is communicated.
double work_seconds(const Pcg& pcg, const DeviceSpec& device);

}  // namespace unity
