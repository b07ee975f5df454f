// Evaluation is the function that training means: without dropout, wherever a mask has gone.
#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/graph/text.h"
#include "core/plan/lower.h"
#include "tests/support/plan_builder.h"
#include "tests/support/random_plan.h"
#include "tests/support/stub_cost_model.h"
#include "tests/support/training_run.h"

using namespace unity;
using namespace unity::test;

namespace {

// y = x w, through a mask as an operand of a product: the mask itself, or what a few operators make of it or of two.
Pcg masked(const std::string& how, double rate) {
  Builder b("masked");
  ValueRef x = b.input("x", {12, 4}), labels = b.input("labels", {12}, DType::i32);
  ValueRef y = b.apply("matmul", {}, {x, b.weight("w", {4, 6})});
  auto mask = [&](Dims shape) { return b.apply("dropout_mask", {shape, rate}, {}); };
  auto scaled = [&](ValueRef v, double factor) { return b.apply("scale", {factor}, {v}); };
  if (how == "itself") {
    y = b.apply("mul", {}, {mask({12, 6}), y});
  } else if (how == "reshaped") {
    y = b.apply("mul", {}, {y, b.apply("reshape", {Dims{12, 6}}, {mask({12, 2, 3})})});
  } else if (how == "transposed and scaled") {
    y = b.apply("mul", {}, {y, scaled(b.apply("transpose", {Dims{1, 0}}, {mask({6, 12})}), 0.5)});
  } else if (how == "broadcast") {
    y = b.apply("mul", {}, {y, mask({12, 1})});
  } else if (how == "on a smaller one") {
    y = b.apply("mul", {}, {y, b.apply("mul", {}, {b.weight("g", {6}), mask({12, 6})})});
  } else {
    REQUIRE(how == "two");
    y = b.apply("mul", {}, {y, b.apply("mul", {}, {mask({12, 6}), mask({12, 6})})});
  }
  ValueRef logits = b.apply("matmul", {}, {b.apply("relu", {}, {y}), b.weight("u", {6, 6})});
  return std::move(b).finish({b.apply("cross_entropy", {}, {logits, labels}), logits});
}

std::vector<double> outputs(const Program& program, const std::map<std::string, HostTensor>& inputs, int steps) {
  Executor executor(program, {.backend = "cpu", .precision = Precision::f64, .seed = 7});
  for (const ProgramLeaf& leaf : executor.inputs()) executor.set_input(leaf.name, inputs.at(leaf.name));
  for (int i = 0; i < steps; ++i) executor.step();
  std::vector<double> all = executor.output(1).reals;
  all.push_back(executor.output(0).reals[0]);
  return all;
}

}  // namespace

TEST_CASE("evaluation has no dropout, wherever the mask has gone, under every plan and in every step") {
  const std::uint64_t seed = seed_of_run();
  INFO("UNITY_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const LowerOptions inference{.training = false};
  for (const char* how : {"itself", "reshaped", "transposed and scaled", "broadcast", "on a smaller one", "two"}) {
    const Pcg pcg = masked(how, 0.5), without = masked(how, 0);
    const auto inputs = random_inputs(pcg, seed);
    auto serial = [](const Pcg& of) { return std::vector<MachineMapping>(of.size()); };
    // In training a mask of rate 0 is all ones, too.
    const std::vector<double> expected =
        outputs(lower(without, serial(without), uniform_topology(1), {.training = true}).value(), inputs, 1);
    auto check = [&](const Program& program) {
      for (int steps : {1, 3}) {
        const std::vector<double> found = outputs(program, inputs, steps);
        REQUIRE(found.size() == expected.size());
        for (std::size_t i = 0; i < found.size(); ++i) REQUIRE(found[i] == Approx(expected[i]).epsilon(1e-10));
      }
    };
    INFO(how);
    check(lower(pcg, serial(pcg), uniform_topology(1), inference).value());
    for (int plans = 0, tried = 0; plans < 15 && tried < 1000; ++tried) {
      const int devices = 2 + static_cast<int>(random() % 5);
      State state = random_state(pcg, devices, random);
      if (state.moves.empty()) continue;
      ++plans;
      INFO(print(state.pcg));
      const Topology topology = uniform_topology(devices);
      check(lower(state.pcg, random_mappings(state.pcg, topology, random), topology, inference).value());
    }
  }
}
