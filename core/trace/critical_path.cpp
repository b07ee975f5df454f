#include "core/trace/critical_path.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace unity {

std::vector<CriticalStep> critical_path(const Trace& trace,
                                        const std::function<std::span<const TaskId>(TaskId)>& dependencies) {
  struct Use {  // a task: its last span, and what its spans follow on their streams
    const Span* last = nullptr;
    std::vector<TaskId> follows;
  };
  std::map<TaskId, Use> tasks;
  std::map<std::pair<DeviceId, int>, TaskId> running;
  std::vector<const Span*> ordered;
  for (const Span& s : trace.spans) ordered.push_back(&s);
  std::sort(ordered.begin(), ordered.end(), [](const Span* a, const Span* b) {
    return std::tuple(a->start, a->end, a->task) < std::tuple(b->start, b->end, b->task);
  });
  for (const Span* s : ordered) {
    Use& use = tasks[s->task];
    if (!use.last || s->end > use.last->end) use.last = s;
    auto [before, first] = running.try_emplace({s->device, s->stream}, s->task);
    if (!first && before->second != s->task) use.follows.push_back(before->second);
    before->second = s->task;
  }
  auto later = [&](TaskId a, TaskId b) {  // whether a ends after b, ties by id
    Picoseconds end_a = tasks.at(a).last->end, end_b = tasks.at(b).last->end;
    return end_a != end_b ? end_a > end_b : a < b;
  };
  TaskId current;
  for (const auto& [task, use] : tasks)
    if (!current.valid() || later(task, current)) current = task;
  std::vector<CriticalStep> path;
  while (current.valid()) {
    const Use& use = tasks.at(current);
    TaskId before;
    // Only what ended before this task did can have held it up; with rounding in measured traces, ids keep the order.
    auto consider = [&](TaskId candidate) {
      if (candidate < current && tasks.contains(candidate) && tasks.at(candidate).last->end <= use.last->end &&
          (!before.valid() || later(candidate, before)))
        before = candidate;
    };
    for (TaskId dependency : dependencies(current)) consider(dependency);
    for (TaskId task : use.follows) consider(task);
    Picoseconds begin = before.valid() ? tasks.at(before).last->end : Picoseconds{};
    path.push_back({current, use.last->device, use.last->end - begin, {}});
    if (use.last->start > begin) path.back().wait = use.last->start - begin;
    current = before;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace unity
