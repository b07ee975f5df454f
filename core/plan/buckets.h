// Gradients of weights in buckets: all-reduces and reduce-scatters that only updates wait for, among the same devices
// in the same order, become one collective with several parts (Communication::joined), in the order in which gradients
// get ready (Li et al. 2020, "PyTorch Distributed", section 3.2.3). It starts when the last of them is ready; meanwhile
// the backward pass goes on. Results are the same bit for bit: each part is added up as on its own (runtime/comm).
#pragma once

#include <vector>

#include "core/base/units.h"
#include "core/plan/program.h"
#include "core/plan/task_pool.h"

namespace unity {

// Of the tasks of a Program, which the pool holds in their order. A bucket is closed when it has at least `bytes` of
// gradients (the last one of a group may have fewer). 0: nothing is joined, and the pool stays as it is: false.
bool join_gradients(Program& program, std::vector<PooledTask>& pool, Bytes bytes);

}  // namespace unity
