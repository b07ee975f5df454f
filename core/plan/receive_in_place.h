// Gradients that are put together from what several devices send: where the boxes do not overlap, each is received
// where it belongs. As lowered, each is received into a buffer of its own and added to what was set to zero before.
// So is the gradient of a table's rows, of which each device sends those of its part of the batch.
#pragma once

#include <vector>

#include "core/plan/program.h"
#include "core/plan/task_pool.h"

namespace unity {

// Of the tasks of a Program, which the pool holds in their order. Whether there are any. Buffers that nothing uses any
// more stay in the list.
bool receive_in_place(Program& program, std::vector<PooledTask>& pool);

}  // namespace unity
