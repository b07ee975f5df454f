#include "simulator/cost_model.h"

#include "simulator/devices/roofline.h"
#include "simulator/simulate.h"

namespace unity {

SimulatedCostModel::SimulatedCostModel(Topology topology) : topology_(std::move(topology)), collectives_(topology_) {}

Score SimulatedCostModel::score(const Program& program) const {
  SimulationResult result = simulate(program, collectives_, {.trace = false});
  return {result.iteration, std::move(result.peak_memory), program.communicated()};
}

Picoseconds SimulatedCostModel::task_time(const Task& task, const ProgramOp*, DeviceId device) const {
  return roofline_time(topology_.spec(device), task.flops, task.bytes);
}

Picoseconds SimulatedCostModel::collective_time(CollectiveKind kind, const std::vector<DeviceId>& group,
                                                Bytes bytes) const {
  return collectives_.choose(kind, group, bytes)->predicted();
}

}  // namespace unity
