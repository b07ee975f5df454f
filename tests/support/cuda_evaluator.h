// The kernels of the CUDA backend, compiled for the host, as an evaluator.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "runtime/cuda/call.h"
#include "tests/support/ops_sharded.h"

namespace unity::testing {

// Of step 0. Scratch memory holds no plausible numbers when a kernel gets it.
inline Evaluator kernel_evaluator() {
  return [](const Operator& op, const OpCall& call) {
    std::vector<std::vector<std::byte>> blocks;
    std::function<void*(std::int64_t)> scratch = [&](std::int64_t bytes) {
      blocks.emplace_back(static_cast<std::size_t>(bytes), std::byte{0x7f});
      return static_cast<void*>(blocks.back().data());
    };
    cuda::StepValues step;
    cuda::find_kernel(op)({call.attributes, call.inputs, call.outputs, call.random, &step, nullptr, scratch});
  };
}

}  // namespace unity::testing
