// The kernels of the CPU backend: one for each operator of operators.def that runs, on the same OpCall as the reference
// evaluator, in f32 and f64 (data movement also in i32). Every operand is a dense row-major block with its offset in,
// and the sizes of, the logical tensor. Results overwrite; operands and results never overlap.
#pragma once

#include "core/ops/operator.h"

namespace unity::cpu {

using Kernel = void (*)(const OpCall&);

// nullptr for operators that have no kernel (input, weight, parallelization).
Kernel find_kernel(const Operator& op);

// Threads inside one matrix product, for the whole process, as the two libraries keep such a setting. The default is 1:
// logical devices are threads already, and with a fixed number of threads every sum is the same in every run.
void set_threads(int threads);

}  // namespace unity::cpu
