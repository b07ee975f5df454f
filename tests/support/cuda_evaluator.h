// The kernels of the CUDA backend, compiled for the host, as an evaluator.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "runtime/cuda/call.h"
#include "tests/support/ops_sharded.h"

namespace unity::testing {

// Of step 0. Scratch memory holds no plausible numbers when a kernel gets it.
inline Evaluator kernel_evaluator(bool channels_last = false) {
  return [channels_last](const Operator& op, const OpCall& call) {
    std::vector<std::vector<std::byte>> blocks;
    std::function<void*(std::int64_t)> scratch = [&](std::int64_t bytes) {
      blocks.emplace_back(static_cast<std::size_t>(bytes), std::byte{0x7f});
      return static_cast<void*>(blocks.back().data());
    };
    cuda::StepValues step;
    cuda::find_kernel(op)(
        {call.attributes, call.inputs, call.outputs, call.random, &step, nullptr, scratch, channels_last});
  };
}

// Reals held as bf16 where bit i of `which` says so for the i-th real operand or result; the others as f32.
inline Evaluator mixed_evaluator(std::uint64_t which) {
  return [which](const Operator& op, const OpCall& call) {
    std::vector<std::vector<cuda::BFloat16>> halves;
    std::vector<Operand> operands(call.inputs.begin(), call.inputs.end());
    operands.insert(operands.end(), call.outputs.begin(), call.outputs.end());
    halves.resize(operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      Operand& o = operands[i];
      if (o.dtype != DType::f32 || !o.data || !((which >> (i % 64)) & 1)) continue;
      halves[i].resize(static_cast<std::size_t>(o.elements()));
      for (std::size_t k = 0; k < halves[i].size(); ++k) halves[i][k] = cuda::to_bfloat16(o.as<float>()[k]);
      o.data = halves[i].data(), o.dtype = DType::bf16;
    }
    std::span<const Operand> all(operands);
    kernel_evaluator()(op,
                       {call.attributes, all.first(call.inputs.size()), all.subspan(call.inputs.size()), call.random});
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      const auto& half = halves[call.inputs.size() + i];
      for (std::size_t k = 0; k < half.size(); ++k) call.outputs[i].as<float>()[k] = cuda::to_float(half[k]);
    }
  };
}

}  // namespace unity::testing
