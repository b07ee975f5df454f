// A Program made ready to be simulated, as often as one likes: what its tasks wait for, what they take alone, and how
// its communications use the links.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/machine/topology.h"
#include "core/plan/program.h"
#include "simulator/collectives/choice.h"
#include "simulator/devices/task_times.h"
#include "simulator/options.h"
#include "simulator/task_buffers.h"
#include "simulator/task_graph.h"

namespace unity {

struct PreparedProgram {
  const Program* program = nullptr;  // its order counts only as far as `graph` says
  TaskGraph graph;
  TaskBuffers buffers;
  // By task. Of communications: only where it is measured.
  std::vector<TaskTimes::Time> times;
  std::vector<Picoseconds> handovers;  // by device: until a task notices the end of one on another stream
  // By communication; null where the time is measured.
  std::vector<std::shared_ptr<const CollectiveChoice>> choices;
  std::vector<BytesPerSecond> capacities;  // by link that the choices name
};

// Program and cache (with its topology) must outlive the result. InputError when the options do not fit the topology.
PreparedProgram prepare(const Program& program, const CollectiveCache& cache, const SimulationOptions& options);

}  // namespace unity
