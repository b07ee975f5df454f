#include "simulator/task_graph.h"

namespace unity {
namespace {

constexpr std::uint32_t kNone = UINT32_MAX;

// edge(before, after)
template <class Edge>
void for_each_edge(const Program& program, Edge edge) {
  std::vector<std::uint32_t> last(static_cast<std::size_t>(program.devices) * kStreams, kNone);
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& task = program.tasks[i];
    auto id = static_cast<std::uint32_t>(i);
    for (TaskId d : program.dependencies_of(task)) edge(static_cast<std::uint32_t>(d.value), id);
    auto occupy = [&](DeviceId device) {
      std::uint32_t& before = last[device.index() * kStreams + static_cast<std::size_t>(task.stream)];
      if (before != kNone) edge(before, id);
      before = id;
    };
    if (task.kind == TaskKind::communicate) {
      for (const Participant& p : program.communications[static_cast<std::size_t>(task.op)].participants)
        occupy(p.device);
    } else {
      occupy(task.device);
    }
  }
}

}  // namespace

template <class ForEachEdge>
void TaskGraph::join(std::size_t tasks, ForEachEdge for_each_edge) {
  waits_for_.assign(tasks, 0);
  // Until all are in the list, begin_[t + 1] is where the next follower of t goes.
  begin_.assign(tasks + 2, 0);
  for_each_edge([&](std::uint32_t before, std::uint32_t after) { ++begin_[before + 2], ++waits_for_[after]; });
  for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  followers_.resize(begin_.back());
  for_each_edge([&](std::uint32_t before, std::uint32_t after) { followers_[begin_[before + 1]++] = after; });
  begin_.pop_back();
}

TaskGraph::TaskGraph(const Program& program) {
  join(program.tasks.size(), [&](auto edge) { for_each_edge(program, edge); });
}

TaskGraph::TaskGraph(std::size_t tasks, std::span<const Edge> edges) {
  join(tasks, [&](auto edge) {
    for (const auto& [before, after] : edges) edge(before, after);
  });
}

}  // namespace unity
