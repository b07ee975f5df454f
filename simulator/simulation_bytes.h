// The memory of a simulation.
#pragma once

#include "simulator/prepared.h"

namespace unity {

// The bytes that `prepared` and its simulation hold at the end, when they hold most: all but the Program, the
// topology, and the shapes of collectives, which many simulations share. Not for SimulationOptions::steps.
Bytes simulation_bytes(const PreparedProgram& prepared, const Topology& topology, const SimulationOptions& options);

}  // namespace unity
