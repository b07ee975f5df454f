#include "simulator/task_graph.h"

namespace unity {

TaskGraph::TaskGraph(const Program& program) {
  constexpr std::uint32_t kNone = UINT32_MAX;
  std::vector<std::uint32_t> last(static_cast<std::size_t>(program.devices) * kStreams, kNone);
  std::vector<Edge> edges;
  edges.reserve(program.dependencies.size() + 2 * program.tasks.size());
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& task = program.tasks[i];
    auto id = static_cast<std::uint32_t>(i);
    for (TaskId d : program.dependencies_of(task)) edges.emplace_back(static_cast<std::uint32_t>(d.value), id);
    auto occupy = [&](DeviceId device) {
      std::uint32_t& before = last[device.index() * kStreams + static_cast<std::size_t>(task.stream)];
      if (before != kNone) edges.emplace_back(before, id);
      before = id;
    };
    if (task.kind == TaskKind::communicate) {
      for (const Participant& p : program.communications[static_cast<std::size_t>(task.op)].participants)
        occupy(p.device);
    } else {
      occupy(task.device);
    }
  }
  *this = TaskGraph(program.tasks.size(), edges);
}

TaskGraph::TaskGraph(std::size_t tasks, std::span<const Edge> edges) : waits_for_(tasks), begin_(tasks + 1) {
  for (const auto& [before, after] : edges) ++begin_[before + 1], ++waits_for_[after];
  for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  std::vector<std::uint32_t> next(begin_.begin(), begin_.end() - 1);
  followers_.resize(edges.size());
  for (const auto& [before, after] : edges) followers_[next[before]++] = after;
}

}  // namespace unity
