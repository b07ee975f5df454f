// How fast the devices of a machine are at a model, relative to each other: where they are unequal, so should be what
// they are given.
#pragma once

#include <vector>

#include "core/graph/pcg.h"
#include "core/search/cost_model.h"

namespace unity {

// By device: the operators of the graph, a task of each, forward and backward, take one over this on it; 1 for the
// slowest. The time is that of the cost model for FLOPs and bytes, without communication.
std::vector<double> device_speeds(const Pcg& pcg, const CostModel& cost);

// The largest number of devices that divides each node: of nodes of 4 and 2, 2.
int common_node_size(const Topology& topology);

// By stage, of which stage s runs on the `width` devices from (s mod groups) * width on: its slowest device's.
std::vector<double> stage_speeds(const std::vector<double>& devices, int stages, int groups, int width);

}  // namespace unity
