// Quick guesses at what a graph takes, before it is scored.
#pragma once

#include "core/graph/pcg.h"
#include "core/machine/topology.h"
#include "core/search/cost_model.h"

namespace unity {

// Seconds: over all operators, the sum of launch overhead and the larger of a task's FLOPs by peak and bytes by memory
// bandwidth, on devices of this kind. Nothing overlaps, nothing is communicated.
double work_seconds(const Pcg& pcg, const DeviceSpec& device);

// About the least that an iteration can take, wherever its tasks run: the longest path through tasks that wait for one
// another, there and back (a backward task takes at least what the forward one does), on the fastest kind of device.
// Nothing is communicated.
Picoseconds path_time(const Pcg& pcg, const CostModel& cost);

// Bytes that one call reads and writes, of what it selects of its operands; or where that is less, all the calls that
// it is split into, in any way.
double memory_traffic(const Operator& op, const AxisTable& table);

}  // namespace unity
