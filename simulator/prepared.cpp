#include "simulator/prepared.h"

namespace unity {

PreparedProgram prepare(const Program& program, const CollectiveCache& cache, const CollectiveOptions& options) {
  const Topology& topology = cache.topology();
  UNITY_CHECK(static_cast<std::size_t>(program.devices) <= topology.device_count(), "a program for {} devices on {}",
              program.devices, topology.device_count());
  check_options(options, topology);
  PreparedProgram prepared{&program, TaskGraph(program), {}, {}, {}, {}};
  TaskTimes times(program, topology);
  prepared.times.resize(program.tasks.size());
  prepared.choices.resize(program.communications.size());
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    TaskId id(static_cast<std::int64_t>(t));
    const Task& task = program.tasks[t];
    if (task.kind != TaskKind::communicate) {
      prepared.times[t] = times.time(id);
    } else if (auto measured = times.communication(id)) {
      prepared.times[t] = {*measured, true};
    } else {
      auto index = static_cast<std::size_t>(task.op);
      prepared.choices[index] = cache.choose(program.communications[index], options);
    }
  }
  for (std::size_t d = 0; d < topology.device_count(); ++d)
    prepared.handovers.push_back(times.handover(DeviceId(static_cast<std::int64_t>(d))));
  for (const Link& link : topology.links) prepared.capacities.push_back(link.bandwidth);
  return prepared;
}

}  // namespace unity
