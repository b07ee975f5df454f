// Predicts one iteration of a Program by discrete-event simulation.
//
// Each device has a compute, a communication and a copy stream, which overlap; a stream runs its tasks in the order of
// the Program, one at a time, each when what it depends on has ended. A communication starts when it is next on the
// communication streams of all participants. Tasks take the time that the device's profile or the roofline says
// (devices/task_times.h), stretched where logical devices share a physical one or where communication interferes with
// compute (devices/shared_compute.h); communications share links max-min fairly (network/network.h,
// collectives/shapes.h). Deterministic: equal inputs give byte-identical results.
#pragma once

#include <array>
#include <vector>

#include "core/machine/topology.h"
#include "core/plan/program.h"
#include "core/trace/trace.h"
#include "simulator/collectives/choice.h"
#include "simulator/options.h"

namespace unity {

// What was chosen for a communication, and why.
struct TaskCollective {
  TaskId task;
  ChoiceReason reason = ChoiceReason::only;
  std::vector<CollectiveAlternative> alternatives;  // the chosen one first; empty where nothing moves
};

struct SimulationResult {
  Picoseconds iteration;
  // Per device. A buffer takes memory from the start of its first user to the end of its last; weights, optimizer
  // states, inputs and outputs throughout.
  std::vector<Bytes> peak_memory;
  std::vector<std::array<Bytes, 5>> memory_by_category;  // per device: what the peak is made of, by BufferCategory
  std::int64_t profiled_tasks = 0, estimated_tasks = 0;  // whose times were measured (core/machine/profile.h); others
  Trace trace;                                           // source "simulated"; empty without SimulationOptions::trace
  std::vector<TaskCollective> collectives;  // by task; of those whose time was not measured; empty without trace
};

SimulationResult simulate(const Program& program, const Topology& topology, const SimulationOptions& options = {});
// With choices kept from earlier simulations on the same topology.
SimulationResult simulate(const Program& program, const CollectiveCache& cache, const SimulationOptions& options);
// What has been prepared with the same options; `fold` is ignored.
struct PreparedProgram;
SimulationResult simulate(const PreparedProgram& prepared, const Topology& topology, const SimulationOptions& options);
// The same, folded.
SimulationResult simulate_folded(const PreparedProgram& prepared, const Topology& topology,
                                 const SimulationOptions& options);

}  // namespace unity
