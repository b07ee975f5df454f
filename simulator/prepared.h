// A Program made ready to be simulated, as often as one likes: what its tasks wait for, what they take alone, and how
// its communications, and copies between devices and hosts, use the links.
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
  static constexpr std::uint32_t kNoFlow = UINT32_MAX;
  // By task. Of what crosses links: copies alone on the idle machine; communications only whether it is measured.
  std::vector<TaskTimes::Time> times;
  // By task that crosses links: its place in `choices`; kNoFlow where `times` says all.
  std::vector<std::uint32_t> flows;
  std::vector<Picoseconds> handovers;  // by device: until a task notices the end of one on another stream
  Picoseconds step_overhead;           // what the iteration takes beside its tasks
  // By communication, null where the time is measured; then of the copies between devices and hosts.
  std::vector<std::shared_ptr<const CollectiveChoice>> choices;
  std::vector<BytesPerSecond> capacities;  // by link that the choices name
};

// Program and cache (with its topology) must outlive the result. InputError when the options do not fit the topology.
PreparedProgram prepare(const Program& program, const CollectiveCache& cache, const SimulationOptions& options);

// InputError when what the tasks take, each with its handover, adds up to more than the simulated clock holds.
void check_times(const PreparedProgram& prepared);

}  // namespace unity
