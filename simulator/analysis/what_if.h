// Where the bottleneck is: what an iteration would take if one thing after the other were faster.
#pragma once

#include <string>
#include <vector>

#include "core/machine/scale.h"
#include "core/plan/program.h"
#include "simulator/options.h"

namespace unity {

struct WhatIf {
  std::string what;  // "link:infiniband=2"
  Picoseconds iteration;
};

// Each kind of link of twice the bandwidth, links without latency, devices of twice the speed, of twice the compute or
// memory bandwidth alone and without overhead of launches (the last three where times are not measured).
std::vector<Scale> usual_scales(const Topology& topology);

// The iteration under each of the cases, named by its last scale: the shortest first, equal ones in the order of the
// cases. Uses all cores; the result does not depend on them.
std::vector<WhatIf> what_if(const Program& program, const Topology& topology,
                            const std::vector<std::vector<Scale>>& cases, const SimulationOptions& options = {});

}  // namespace unity
