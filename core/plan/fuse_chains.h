// Chains of element-wise operators as one task each (chain.h): what one wrote and the next reads is not read from
// memory again, and not written, either, where nobody else reads it. A product of matrices may lead a chain, so that a
// bias and an activation are applied where it is computed.
//
// Joined are tasks of one device, stream, phase, micro-batch and iteration, with results of one box of equally large
// tensors, each of which reads what the one before wrote. They run in the place of the last. A task joins only where
// that changes no order that matters:
//
//   nobody else who stands before it waits for the chain (so that there are no cycles), nor does a communication for
//   any but the last of its tasks;
//   what stands in between on that stream uses nothing that the chain writes, and writes nothing that it uses;
//   neither the task nor what stands in between waits for another stream or device for which the first of the chain
//   does not wait: the chain is held up no more than its first task was.
//
// Values are those of the tasks one by one, bit for bit, as each step is the same operator on the same values.
#pragma once

#include <vector>

#include "core/plan/program.h"
#include "core/plan/task_pool.h"

namespace unity {

// Of the tasks of a Program, which the pool holds in their order. Whether there are any. The last of all passes: others
// name operators of the plan. Buffers that nothing uses any more stay in the list.
bool fuse_chains(Program& program, std::vector<PooledTask>& pool);

}  // namespace unity
