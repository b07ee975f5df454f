// Gradients that are added up as they are computed. Where an operator has a form that adds (Operator::accumulating),
// and a task of its own would add its result to a sum, or something else to its result, it does so itself, as BLAS and
// cuDNN do with beta = 1: neither a buffer of its own nor the traffic of the addition is left, three times the
// gradient's bytes, but one more to read the sum. So the gradients of micro-batches are added up, those of a value that
// several operators read (queries, keys and values; what goes around a block and through it), and both that go through
// a batch norm.
//
// Source: gradient accumulation fusion of Megatron-LM; beta of cudnnConvolutionBackwardData.
#pragma once

#include <vector>

#include "core/plan/program.h"
#include "core/plan/task_pool.h"

namespace unity {

// Of the tasks of a Program, which the pool holds in their order: where what is added is there before the gradient is
// computed. Whether there is one. Buffers that nothing uses any more stay in the list.
bool accumulate_in_place(Program& program, std::vector<PooledTask>& pool);

// Whether `adding`, which stands behind it in Program::ops, is `op` with its result added to a sum.
bool adds_to(const ProgramOp& adding, const ProgramOp& op);

}  // namespace unity
