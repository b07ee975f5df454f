// What must end before a task may start: its dependencies, and the task before it on each of its streams. Dependencies
// on earlier tasks of its own stream go without saying, and are left out.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/plan/program.h"
#include "simulator/engine/held_bytes.h"

namespace unity {

inline constexpr std::size_t kStreams = 3;

class TaskGraph {
 public:
  using Edge = std::pair<std::uint32_t, std::uint32_t>;  // the first before the second

  TaskGraph() = default;
  explicit TaskGraph(const Program& program);
  TaskGraph(std::size_t tasks, std::span<const Edge> edges);

  // By task: how many tasks it waits for (with repetition, as in followers()).
  const std::vector<std::uint32_t>& waits_for() const { return waits_for_; }
  std::span<const std::uint32_t> followers(std::size_t task) const {
    return {followers_.data() + begin_[task], followers_.data() + begin_[task + 1]};
  }
  // Of all tasks, one after the other, and where those of a task begin, with the end.
  std::span<const std::uint32_t> all_followers() const { return followers_; }
  std::span<const std::uint32_t> followers_begin() const { return begin_; }
  std::size_t bytes() const { return held_bytes(waits_for_, begin_, followers_); }

 private:
  // `for_each_edge(use)` calls use(before, after) for every edge, each time in the same order.
  template <class ForEachEdge>
  void join(std::size_t tasks, ForEachEdge for_each_edge);

  std::vector<std::uint32_t> waits_for_, begin_, followers_;
};

}  // namespace unity
