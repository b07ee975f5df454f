// A chain of element-wise operators (core/ops/chain.h) as one kernel: a value is read once, goes through the steps in
// registers, and what is kept is written.
//
// The kernel interprets the chain, which is small enough to be an argument of it: no compiler at run time, and one
// kernel for all chains, of which a model has dozens. All threads take the same step at the same time, so that its
// choice costs a few instructions, where one element costs 8 bytes of memory traffic or more, of four elements each
// time. A thread's only value is what the step before wrote: what a step reads beside it is memory, be it from outside
// or kept by an earlier step of the same thread, so that no register is chosen by number.
//
// Values are those of the operators' kernels one after the other, bit for bit: what would be held in bf16 between two
// steps is rounded as if it were.
#pragma once

#include <functional>

#include "core/ops/chain.h"
#include "runtime/cuda/launch.h"

namespace unity::cuda {

// Where a chain is entered: steps from `step` on run, the first of them on `before`, if it reads what the step before
// wrote.
struct ChainEntry {
  std::size_t step = 0;
  Operand before;
};

// The kernel of a chain, or of the rest of one, on `operands` (inputs, then results). `held`: by step, in which type
// its result is held, or would be. `before` may lie where the last result goes. CHECKs that all are element-wise.
std::function<void(Stream)> chain_kernel(const Chain& chain, std::span<const Operand> operands,
                                         std::span<const DType> held, const ChainEntry& entry = {});

}  // namespace unity::cuda
