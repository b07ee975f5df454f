// Chains on the CPU, block by block, against their operators' kernels one after the other on the whole.
#include <cmath>

#include <catch2/catch.hpp>

#include "runtime/cpu/chain.h"
#include "runtime/cpu/threads.h"
#include "tests/support/random_chain.h"
#include "tests/support/seed.h"

using namespace unity;
using namespace unity::test;

namespace {

// What lies between steps has blocks of its own here.
void run_apart(const RandomChain& of) {
  std::vector<std::vector<std::byte>> between;
  Operand before;
  for (const ChainStep& step : of.chain->steps()) {
    std::vector<Operand> inputs;
    for (int i : step.operands)
      inputs.push_back(i == ChainStep::kBefore ? before : of.operands[static_cast<std::size_t>(i)]);
    Operand result = of.operands.back();
    if (step.kept != ChainStep::kNotKept) {
      result = of.operands[static_cast<std::size_t>(step.kept)];
    } else {
      for (const Operand& o : of.operands)
        if (o.dtype != DType::i32) result.dtype = o.dtype;
      if (step.dtype == DType::i32) result.dtype = DType::i32;
      result.data = between.emplace_back(static_cast<std::size_t>(result.elements() * size_of(result.dtype))).data();
    }
    cpu::find_kernel (*step.op)({step.attributes, inputs, {&result, 1}, {}});
    before = result;
  }
}

}  // namespace

TEST_CASE("a chain computes block by block what its operators compute one after the other, on any threads") {
  std::mt19937_64 random(seed_of_run());
  INFO("UNITY_TEST_SEED=" << seed_of_run());
  const std::vector<Dims> extents = {{}, {5}, {4, 6}, {100'000}, {3, 170, 130}, {40, 3, 9'000}, {2, 1, 50'000}, {0, 4}};
  for (int tried = 0; tried < 120; ++tried) {
    const Dims& extent = extents[random() % extents.size()];
    const bool product = extent.size() > 1 && extent[0] > 0 && random() % 3 == 0;
    DType real = random() % 2 ? DType::f32 : DType::f64;
    RandomChain apart = random_chain(random, extent, 2 + random() % 6, real, product);
    RandomChain fused = apart.again();
    INFO(apart.chain->text() << " of " << to_string(Shape{extent, real}));
    cpu::set_threads(1);
    run_apart(apart);
    for (int threads : {1, 3}) {
      cpu::set_threads(threads);
      cpu::ChainKernel(*fused.chain, fused.operands)();
      for (std::size_t i = 0; i < apart.operands.size(); ++i) {
        INFO("operand " << i << ", " << threads << " threads");
        const Operand &a = apart.operands[i], &b = fused.operands[i];
        REQUIRE((a.dtype == DType::f32   ? same_elements<float>(a, b)
                 : a.dtype == DType::f64 ? same_elements<double>(a, b)
                                         : same_elements<std::int32_t>(a, b)));
      }
    }
  }
  cpu::set_threads(1);
}

TEST_CASE("the reference of a chain is that of its operators") {
  std::vector<double> x = {-1, 2}, y = {10, 20}, sum(2), result(2);
  Dims extent = {2}, offset = {0};
  std::vector<ChainStep> steps(3);
  steps[0] = {.op = &get_operator("add"), .operands = {0, 1}, .kept = 2};
  steps[1] = {.op = &get_operator("scale"), .attributes = {0.5}, .operands = {ChainStep::kBefore}};
  steps[2] = {.op = &get_operator("mul"), .operands = {ChainStep::kBefore, 2}, .kept = 3};
  Chain chain(steps, 2);
  auto operand = [&](std::vector<double>& v) { return Operand{v.data(), DType::f64, extent, offset, extent}; };
  std::vector<Operand> in = {operand(x), operand(y)}, out = {operand(sum), operand(result)};
  chain.reference({{}, in, out, {}});
  CHECK(sum == std::vector<double>{9, 22});
  CHECK(result == std::vector<double>{9 * 4.5, 22 * 11});
  CHECK(chain.name() == "add+scale+mul");
}
