// Chains as one kernel, compiled for the host, against the operators' kernels one after the other.
#include <catch2/catch.hpp>

#include "runtime/cuda/chain.h"
#include "tests/support/cuda_evaluator.h"
#include "tests/support/random_chain.h"
#include "tests/support/seed.h"

using namespace unity;
using namespace unity::test;

namespace {

// Holds some of the reals as bf16.
void hold_halves(RandomChain& chain, std::mt19937_64& random) {
  for (std::size_t i = 0; i < chain.operands.size(); ++i) {
    Operand& o = chain.operands[i];
    if (o.dtype != DType::f32 || random() % 2) continue;
    std::vector<std::byte> halves(static_cast<std::size_t>(o.elements() * size_of(DType::bf16)));
    for (std::int64_t k = 0; k < o.elements(); ++k)
      reinterpret_cast<cuda::BFloat16*>(halves.data())[k] = cuda::to_bfloat16(o.as<float>()[k]);
    chain.memory[i] = std::move(halves);
    o.data = chain.memory[i].data(), o.dtype = DType::bf16;
  }
}

// In which types the steps' results are held, those that are not kept at random.
std::vector<DType> held_types(const RandomChain& chain, std::mt19937_64& random, bool halves) {
  DType real = DType::f32;
  for (const Operand& o : chain.operands)
    if (o.dtype == DType::f64) real = DType::f64;
  std::vector<DType> held;
  for (const ChainStep& step : chain.chain->steps())
    held.push_back(step.kept != ChainStep::kNotKept ? chain.operands[static_cast<std::size_t>(step.kept)].dtype
                   : step.dtype == DType::i32       ? DType::i32
                   : halves && random() % 2         ? DType::bf16
                                                    : real);
  return held;
}

// Each step by the kernel of its operator, up to `end`; gives the last result, in `between` where it is not kept.
Operand run_apart(const RandomChain& of, std::span<const DType> held, std::size_t end,
                  std::vector<std::vector<std::byte>>& between) {
  Operand before;
  for (std::size_t s = 0; s < end; ++s) {
    const ChainStep& step = of.chain->steps()[s];
    std::vector<Operand> inputs;
    for (int i : step.operands)
      inputs.push_back(i == ChainStep::kBefore ? before : of.operands[static_cast<std::size_t>(i)]);
    Operand result = of.operands.back();
    if (step.kept != ChainStep::kNotKept) {
      result = of.operands[static_cast<std::size_t>(step.kept)];
    } else {
      result.dtype = held[s];
      result.data = between.emplace_back(static_cast<std::size_t>(result.elements() * size_of(result.dtype))).data();
    }
    testing::kernel_evaluator()(*step.op, {step.attributes, inputs, {&result, 1}, {}});
    before = result;
  }
  return before;
}

bool same(const Operand& a, const Operand& b) {
  switch (a.dtype) {
    case DType::f32:
      return same_elements<float>(a, b);
    case DType::f64:
      return same_elements<double>(a, b);
    case DType::i32:
      return same_elements<std::int32_t>(a, b);
    default:
      for (std::int64_t i = 0; i < a.elements(); ++i) {
        float x = cuda::to_float(a.as<cuda::BFloat16>()[i]), y = cuda::to_float(b.as<cuda::BFloat16>()[i]);
        if (x != y && !(x != x && y != y)) return false;
      }
      return true;
  }
}

}  // namespace

TEST_CASE("a chain as one kernel computes what its operators' kernels do, in f32, f64 and beside bf16") {
  std::mt19937_64 random(seed_of_run());
  INFO("UNITY_TEST_SEED=" << seed_of_run());
  const std::vector<Dims> extents = {{},      {5},       {21},      {64},         {4, 6}, {6, 8},
                                     {3, 24}, {3, 7, 4}, {5, 4, 8}, {2, 3, 4, 8}, {0, 4}};
  for (int tried = 0; tried < 400; ++tried) {
    const Dims& extent = extents[random() % extents.size()];
    const int type = static_cast<int>(random() % 3);
    RandomChain apart = random_chain(random, extent, 2 + random() % 7, type == 0 ? DType::f64 : DType::f32, false);
    if (type == 2) hold_halves(apart, random);
    auto held = held_types(apart, random, type == 2);
    RandomChain fused = apart.again();
    INFO(apart.chain->text() << " of " << to_string(Shape{extent, DType::f32}) << ", kind " << type);
    std::vector<std::vector<std::byte>> between;
    run_apart(apart, held, apart.chain->steps().size(), between);
    cuda::chain_kernel(*fused.chain, fused.operands, held)(nullptr);
    for (std::size_t i = 0; i < apart.operands.size(); ++i) {
      INFO("operand " << i);
      REQUIRE(same(apart.operands[i], fused.operands[i]));
    }
  }
}

TEST_CASE("the rest of a chain goes on from what a product left in the place of its result") {
  std::mt19937_64 random(seed_of_run());
  INFO("UNITY_TEST_SEED=" << seed_of_run());
  for (int tried = 0; tried < 60; ++tried) {
    RandomChain apart = random_chain(random, {6, 8}, 2 + random() % 6, DType::f32, true);
    auto held = held_types(apart, random, false);
    RandomChain fused = apart.again();
    INFO(apart.chain->text());
    std::vector<std::vector<std::byte>> between;
    run_apart(apart, held, apart.chain->steps().size(), between);
    // The product's result, in the last one's place if it is not kept.
    Operand product = run_apart(fused, held, 1, between);
    if (fused.chain->steps()[0].kept == ChainStep::kNotKept) {
      std::copy_n(product.as<float>(), product.elements(), fused.operands.back().as<float>());
      product = fused.operands.back();
    }
    cuda::chain_kernel(*fused.chain, fused.operands, held, {1, product})(nullptr);
    for (std::size_t i = 0; i < apart.operands.size(); ++i) {
      INFO("operand " << i);
      REQUIRE(same(apart.operands[i], fused.operands[i]));
    }
  }
}
