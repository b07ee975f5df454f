#include "cli/timeline.h"

#include "core/plan/crossing.h"
#include "core/trace/perfetto.h"

namespace unity::cli {

std::string timeline_of(const Program& program, const Trace& trace, const Topology& topology) {
  std::vector<std::string> names = task_names(program), groups = task_groups(program), devices;
  for (const Device& d : topology.devices) devices.push_back(d.name);
  std::vector<std::pair<TaskId, TaskId>> arrows = crossing_dependencies(program);
  return trace_to_perfetto(trace, {names, groups, devices, arrows});
}

}  // namespace unity::cli
