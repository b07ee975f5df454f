// The kernels of the CPU backend: one for each operator of operators.def that runs, on the same OpCall as the reference
// evaluator, in f32 and f64 (data movement also in i32). Every operand is a dense row-major block with its offset in,
// and the sizes of, the logical tensor. Results overwrite; operands and results never overlap.
#pragma once

#include "core/ops/operator.h"

namespace unity::cpu {

using Kernel = void (*)(const OpCall&);

// nullptr for operators that have no kernel (input, weight, parallelization).
Kernel find_kernel(const Operator& op);

}  // namespace unity::cpu
