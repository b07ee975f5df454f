#include "core/plan/crossing.h"

#include <algorithm>

namespace unity {

std::vector<std::pair<TaskId, TaskId>> crossing_dependencies(const Program& program) {
  auto occupies = [&](const Task& task, DeviceId device) {
    if (task.kind != TaskKind::communicate) return task.device == device;
    const auto& participants = program.communications[static_cast<std::size_t>(task.op)].participants;
    return std::any_of(participants.begin(), participants.end(),
                       [&](const Participant& p) { return p.device == device; });
  };
  auto along_stream = [&](const Task& a, const Task& b) {
    if (a.stream != b.stream) return false;
    if (a.kind != TaskKind::communicate) return occupies(b, a.device);
    const auto& participants = program.communications[static_cast<std::size_t>(a.op)].participants;
    return std::any_of(participants.begin(), participants.end(),
                       [&](const Participant& p) { return occupies(b, p.device); });
  };
  std::vector<std::pair<TaskId, TaskId>> crossing;
  for (std::size_t t = 0; t < program.tasks.size(); ++t)
    for (TaskId d : program.dependencies_of(program.tasks[t]))
      if (!along_stream(program.tasks[d.index()], program.tasks[t]))
        crossing.emplace_back(d, TaskId(static_cast<std::int64_t>(t)));
  return crossing;
}

}  // namespace unity
