// Which tasks an iteration waits for: a chain from its start to its end in which each task begins when the one before
// it ends, because it depends on it or follows it on the same stream of a device.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/trace/trace.h"

namespace unity {

struct CriticalStep {
  TaskId task;
  DeviceId device;   // of the task's last span
  Picoseconds time;  // from the end of the step before to the end of this one: waiting included
  Picoseconds wait;  // of that, before its span began
};

// In order of time; the times add up to the end of the last task. `dependencies` gives the tasks that a task waits for.
// Of several that end last, the one with the smallest id counts, so the path is the same when repeated.
std::vector<CriticalStep> critical_path(const Trace& trace,
                                        const std::function<std::span<const TaskId>(TaskId)>& dependencies);

}  // namespace unity
