// Dependencies that a timeline draws: between tasks of different devices or streams.
#pragma once

#include <utility>
#include <vector>

#include "core/plan/program.h"

namespace unity {

// What ends and what waits for it, in the order of the latter. Not those along a stream of a device that both tasks
// occupy, which stand one after the other there anyway.
std::vector<std::pair<TaskId, TaskId>> crossing_dependencies(const Program& program);

}  // namespace unity
