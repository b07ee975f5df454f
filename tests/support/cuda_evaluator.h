// The kernels of the CUDA backend, compiled for the host, as an evaluator.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "runtime/cuda/call.h"
#include "tests/support/ops_sharded.h"

namespace unity::testing {

// Memory that ends where a page begins that nobody may read or write, but for what is missing to a multiple of 16
// bytes.
class GuardedMemory {
 public:
  GuardedMemory() = default;
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory() {
    for (auto [begin, bytes] : maps_) ::munmap(begin, bytes);
  }
  // At a multiple of 16 bytes, or of 256 where `bytes` is one.
  std::byte* add(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t pages = (bytes + 16 + page - 1) / page;
    void* map = ::mmap(nullptr, (pages + 1) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    UNITY_CHECK(map != MAP_FAILED, "no memory for {} bytes", bytes);
    maps_.emplace_back(map, (pages + 1) * page);
    auto* end = static_cast<std::byte*>(map) + pages * page;
    UNITY_CHECK(::mprotect(end, page, PROT_NONE) == 0, "the page behind {} bytes", bytes);
    return end - (bytes + 15) / 16 * 16;
  }

 private:
  std::vector<std::pair<void*, std::size_t>> maps_;
};

// Of step 0. Scratch memory holds no plausible numbers when a kernel gets it.
inline Evaluator kernel_evaluator(bool channels_last = false) {
  return [channels_last](const Operator& op, const OpCall& call) {
    GuardedMemory memory;
    std::function<void*(std::int64_t)> scratch = [&](std::int64_t bytes) {
      return std::memset(memory.add(static_cast<std::size_t>(bytes)), 0x7f, static_cast<std::size_t>(bytes));
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
