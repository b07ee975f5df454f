// Small communications that start together or are awaited together, as those of the two statistics of a batch norm over
// all devices, and of their gradients: of the same kind, among the same devices, behind the same tasks or before the
// same ones. One by one they would take the latency of the links each, which is most of their time; as one they take it
// once. What each computes is what it would alone, bit for bit.
//
// All-reduces of weights' gradients are left to buckets.h, which are the plan's choice.
#pragma once

#include "core/base/units.h"
#include "core/plan/program.h"
#include "core/plan/task_pool.h"

namespace unity {

// What they have together at most: on links of 10 GB/s, 7 us.
inline constexpr Bytes kSmallTogether{64 << 10};

// Of the tasks of a Program, which the pool holds in their order. Whether there are any.
bool join_small_communications(Program& program, std::vector<PooledTask>& pool);

}  // namespace unity
