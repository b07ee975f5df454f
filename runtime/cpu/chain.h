// Chains (core/ops/chain.h) on the CPU: block after block goes through all the steps, so that what one step writes is
// still in the cache when the next one reads it. A block is a smaller shard, so that each step is the kernel of its
// operator; blocks are shared out to the threads of the device. A product that leads a chain is computed whole, before,
// where the chain's result goes if it is not kept.
#pragma once

#include <vector>

#include "core/ops/chain.h"
#include "runtime/cpu/kernels.h"

namespace unity::cpu {

class ChainKernel {
 public:
  // `operands`: of the task, as of a call: inputs, then results. CHECKs that all its operators have kernels.
  ChainKernel(const Chain& chain, std::vector<Operand> operands);
  void operator()() const;

 private:
  struct Block;
  void run(std::int64_t block) const;
  void lead() const;

  const Chain& chain_;
  std::vector<Kernel> kernels_;  // by step
  std::vector<Operand> operands_;
  std::size_t first_ = 0;  // step of those that are taken block by block
  // The result's dimensions before `cut_` are taken one index at a time, those behind it whole, and `rows_` of it.
  std::size_t cut_ = 0;
  std::int64_t rows_ = 1, cuts_ = 1, blocks_ = 1;
  DType real_ = DType::f32;
};

}  // namespace unity::cpu
