// Gradients that are added up as they are computed. Where a gradient's task has nothing but one task that adds it to a
// sum, and its operator has a form that adds (Operator::accumulating), it adds to that sum itself, as BLAS does with
// beta = 1: neither a buffer of its own nor the traffic of the addition is left, three times the gradient's bytes for
// each micro-batch, but one more to read the sum.
//
// Source: gradient accumulation fusion of Megatron-LM.
#pragma once

#include <vector>

#include "core/plan/program.h"
#include "core/plan/task_pool.h"

namespace unity {

// Of the tasks of a Program, which the pool holds in their order: where the sum is there before the gradient is
// computed. Whether there is one. Buffers that nothing uses any more stay in the list.
bool accumulate_in_place(Program& program, std::vector<PooledTask>& pool);

// Whether `adding`, which stands behind it in Program::ops, is `op` with its result added to a sum.
bool adds_to(const ProgramOp& adding, const ProgramOp& op);

}  // namespace unity
