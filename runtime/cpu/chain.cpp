#include "runtime/cpu/chain.h"

#include <cstring>

#include <absl/container/inlined_vector.h>

#include "runtime/cpu/kernel_tools.h"

namespace unity::cpu {
namespace {

// Elements of a block: no more than a kernel takes on one thread, and so few that what lies between two steps stays in
// the cache of a core.
constexpr std::int64_t kBlock = kGrain;

// What lies between steps, on this thread.
std::array<std::byte*, 2> memory_between() {
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  constexpr std::size_t kLines = kBlock * sizeof(double) / sizeof(Line);
  thread_local std::vector<Line> lines(2 * kLines);
  return {lines[0].bytes, lines[kLines].bytes};
}

}  // namespace

// A part of the result's box, in the coordinates of that box.
struct ChainKernel::Block {
  Dims begin, extent;

  // What an operand that is broadcast to the result has of it.
  Operand of(const Operand& whole, const Dims& result) const {
    Operand part = whole;
    const std::size_t missing = result.size() - whole.extent.size();
    std::int64_t first = 0;
    for (std::size_t d = 0; d < whole.extent.size(); ++d) {
      const bool walks = whole.extent[d] == result[missing + d];
      const std::int64_t at = walks ? begin[missing + d] : 0;
      if (walks) part.extent[d] = extent[missing + d];
      part.offset[d] += at;
      first = first * whole.extent[d] + at;
    }
    part.data = whole.as<std::byte>() + first * size_of(whole.dtype);
    return part;
  }
};

ChainKernel::ChainKernel(const Chain& chain, std::vector<Operand> operands)
    : chain_(chain), operands_(std::move(operands)), first_(chain.led_by_product() ? 1 : 0) {
  for (const ChainStep& step : chain.steps()) {
    kernels_.push_back(find_kernel(*step.op));
    UNITY_CHECK(kernels_.back(), "the cpu backend has no kernel for {}", step.op->name());
  }
  for (const Operand& o : operands_)
    if (o.dtype != DType::i32) real_ = o.dtype;
  const Dims& extent = operands_.back().extent;
  std::int64_t inner = element_count(extent);
  while (cut_ < extent.size() && inner / std::max<std::int64_t>(extent[cut_], 1) > kBlock) inner /= extent[cut_++];
  if (extent.empty()) return;
  rows_ =
      std::max<std::int64_t>(1, kBlock / std::max<std::int64_t>(1, inner / std::max<std::int64_t>(extent[cut_], 1)));
  cuts_ = (extent[cut_] + rows_ - 1) / rows_;
  blocks_ = cuts_;
  for (std::size_t d = 0; d < cut_; ++d) blocks_ *= extent[d];
}

void ChainKernel::operator()() const {
  if (first_ > 0) lead();
  if (operands_.back().elements() == 0) return;
  parallel_for(blocks_, 1, [this](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) run(block);
  });
}

void ChainKernel::lead() const {
  const ChainStep& step = chain_.steps()[0];
  std::vector<Operand> inputs;
  for (int i : step.operands) inputs.push_back(operands_[static_cast<std::size_t>(i)]);
  const Operand& result =
      step.kept == ChainStep::kNotKept ? operands_.back() : operands_[static_cast<std::size_t>(step.kept)];
  kernels_[0]({step.attributes, inputs, {&result, 1}, {}});
}

void ChainKernel::run(std::int64_t number) const {
  const Dims& whole = operands_.back().extent;
  Block block{Dims(whole.size(), 0), whole};
  if (!whole.empty()) {
    block.begin[cut_] = number % cuts_ * rows_;
    block.extent[cut_] = std::min(rows_, whole[cut_] - block.begin[cut_]);
    std::int64_t outer = number / cuts_;
    for (std::size_t d = cut_; d-- > 0; outer /= whole[d]) block.begin[d] = outer % whole[d], block.extent[d] = 1;
  }
  auto part = [&](int i) { return block.of(operands_[static_cast<std::size_t>(i)], whole); };
  const std::array<std::byte*, 2> memory = memory_between();
  Operand before;
  if (first_ > 0) {
    const int kept = chain_.steps()[0].kept;
    before = part(kept == ChainStep::kNotKept ? static_cast<int>(operands_.size()) - 1 : kept);
    if (kept == ChainStep::kNotKept) {  // or the last step would read and write the same place
      std::memcpy(memory[0], before.data, static_cast<std::size_t>(before.elements() * size_of(before.dtype)));
      before.data = memory[0];
    }
  }
  absl::InlinedVector<Operand, 3> inputs;
  for (std::size_t s = first_; s < kernels_.size(); ++s) {
    const ChainStep& step = chain_.steps()[s];
    inputs.clear();
    for (int i : step.operands) inputs.push_back(i == ChainStep::kBefore ? before : part(i));
    Operand result = part(step.kept == ChainStep::kNotKept ? static_cast<int>(operands_.size()) - 1 : step.kept);
    if (step.kept == ChainStep::kNotKept) {
      result.data = memory[s % 2];
      result.dtype = step.dtype == DType::i32 ? DType::i32 : real_;
    }
    kernels_[s]({step.attributes, {inputs.data(), inputs.size()}, {&result, 1}, {}});
    before = result;
  }
}

}  // namespace unity::cpu
