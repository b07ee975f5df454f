#include "simulator/cost_model.h"

#include "simulator/analysis/steady_state.h"
#include "simulator/devices/roofline.h"
#include "simulator/devices/task_times.h"
#include "simulator/simulate.h"

namespace unity {

SimulatedCostModel::SimulatedCostModel(Topology topology) : topology_(std::move(topology)), collectives_(topology_) {
  for (std::size_t d = 0; d < topology_.device_count(); ++d)
    rates_.push_back(measured_rates(topology_, DeviceId(static_cast<std::int64_t>(d))));
}

Score SimulatedCostModel::score(const Program& program) const {
  const bool several = program.iterations > 1;
  SimulationResult result = simulate(program, collectives_, {.trace = several});
  if (!several) return {result.iteration, std::move(result.peak_memory), program.communicated()};
  return {steady_state(program, result.trace).iteration(), std::move(result.peak_memory),
          Bytes{program.communicated().count / program.iterations}};
}

Picoseconds SimulatedCostModel::task_time(const Task& task, const ProgramOp*, DeviceId device) const {
  return roofline_time(rates_[device.index()], task.flops, task.bytes);
}

Picoseconds SimulatedCostModel::collective_time(CollectiveKind kind, const std::vector<DeviceId>& group,
                                                Bytes bytes) const {
  if (auto measured = measured_collective(topology_, kind, group, bytes)) return *measured;
  return collectives_.choose(kind, group, bytes)->predicted();
}

}  // namespace unity
