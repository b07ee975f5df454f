#include <catch2/catch.hpp>

#include "core/trace/critical_path.h"

using namespace unity;

namespace {

Span span(int task, int device, int stream, std::int64_t start, std::int64_t end) {
  return {TaskId(task), DeviceId(device), static_cast<std::uint8_t>(stream), {start}, {end}};
}

std::vector<std::pair<int, std::int64_t>> steps(const Trace& trace, const std::vector<std::vector<TaskId>>& waits_for) {
  std::vector<std::pair<int, std::int64_t>> result;
  for (const CriticalStep& s : critical_path(trace, [&](TaskId t) { return std::span(waits_for[t.index()]); }))
    result.emplace_back(s.task.value, s.time.count);
  return result;
}

}  // namespace

TEST_CASE("the critical path goes through what a task waited for longest, and its times add up to the iteration") {
  // Device 0 computes 0 (ends 10), device 1 computes 1 (ends 30); 2 communicates both results (30 to 50, on both); 3
  // runs on device 0 at 50 to 55.
  Trace trace;
  trace.spans = {span(0, 0, 0, 0, 10), span(1, 1, 0, 0, 30), span(2, 0, 1, 30, 50), span(2, 1, 1, 30, 50),
                 span(3, 0, 0, 50, 55)};
  std::vector<std::vector<TaskId>> waits_for = {{}, {}, {TaskId(0), TaskId(1)}, {TaskId(2)}};
  CHECK(steps(trace, waits_for) == std::vector<std::pair<int, std::int64_t>>{{1, 30}, {2, 20}, {3, 5}});
}

TEST_CASE("a task that waits only for its stream is on the path after the task before it there") {
  Trace trace;
  trace.spans = {span(0, 0, 0, 0, 10), span(1, 0, 0, 10, 25), span(2, 1, 0, 0, 20)};
  CHECK(steps(trace, {{}, {}, {}}) == std::vector<std::pair<int, std::int64_t>>{{0, 10}, {1, 15}});
}

TEST_CASE("the time that a task waits for its message counts as its own") {
  // 1 depends on 0 but starts 5 later.
  Trace trace;
  trace.spans = {span(0, 0, 0, 0, 10), span(1, 1, 0, 15, 25)};
  TaskId first(0);
  std::vector<CriticalStep> path = critical_path(
      trace, [&](TaskId t) { return t == first ? std::span<const TaskId>() : std::span<const TaskId>(&first, 1); });
  CHECK(path[1].wait.count == 5);
  CHECK(steps(trace, {{}, {TaskId(0)}}) == std::vector<std::pair<int, std::int64_t>>{{0, 10}, {1, 15}});
}

TEST_CASE("an empty trace has no critical path") { CHECK(steps({}, {}).empty()); }
