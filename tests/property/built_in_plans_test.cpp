// The built-in models, at reduced size, train under random plans as on one device: f64 and f32, loss and all gradients.
#include <catch2/catch.hpp>

#include "core/graph/text.h"
#include "core/models/models.h"
#include "core/plan/lower.h"
#include "tests/support/random_plan.h"
#include "tests/support/stub_cost_model.h"
#include "tests/support/training_run.h"

using namespace unity;
using namespace unity::test;

namespace {

// Compares so many random plans with the serial program, to the given differences in f64 and f32.
void check_random_plans(const ModelSpec& spec, int plans, double exact_within, double rounded_within) {
  std::uint64_t seed = seed_of_run();
  std::mt19937_64 random(seed);
  Pcg serial = build_model(spec);
  auto inputs = random_inputs(serial, seed);
  Program reference = lower(serial, std::vector<MachineMapping>(serial.size()), uniform_topology(1)).value();
  Run exact = run(reference, inputs, Precision::f64), rounded = run(reference, inputs, Precision::f32);
  auto scale = scales(exact);
  int done = 0;
  for (int tried = 0; done < plans && tried < 50 * plans; ++tried) {
    int devices = 2 + static_cast<int>(random() % 7);
    Topology topology = uniform_topology(devices);
    State state = random_state(serial, devices, random);
    if (state.moves.empty()) continue;
    ++done;
    auto where = random_mappings(state.pcg, topology, random);
    std::string story;
    for (const DerivationStep& s : state.steps) story += fmt::format("{} {} at {}\n", s.rule, s.degree, s.where);
    INFO("UNITY_TEST_SEED=" << seed << ", " << spec.name << ", plan " << done << " on " << devices << " devices:\n"
                            << story << print(state.pcg));
    Program program = lower(state.pcg, where, topology).value();
    check_program(program).value();
    REQUIRE(distance(run(program, inputs, Precision::f64), exact, scale, exact_within) <= exact_within);
    REQUIRE(distance(run(program, inputs, Precision::f32), rounded, scale, rounded_within) <= rounded_within);
  }
  CHECK(done == plans);
}

}  // namespace

TEST_CASE("the paper's models train under random plans as on one device") {
  const ModelSpec models[] = {
      {"bert@artifact", {{"batch", 12}, {"seq-len", 6}, {"layers", 2}, {"hidden", 12}, {"heads", 6}}},
      {"candle-uno", {{"batch", 12}, {"layers", 2}, {"top-layers", 2}, {"hidden", 12}, {"features", 24}}},
      {"dlrm", {{"batch", 12}, {"hidden", 48}, {"width", 12}, {"rows", 24}}},
      {"dlrm@artifact", {{"batch", 12}, {"hidden", 12}, {"width", 12}, {"rows", 24}}},
      {"mlp@artifact", {{"batch", 12}, {"layers", 3}, {"hidden", 12}, {"input", 12}}},
      {"resnext-50@artifact",
       {{"batch", 12}, {"image", 32}, {"classes", 6}, {"divisor", 16}, {"groups", 4}, {"blocks", 1}}},
      {"xdl", {{"batch", 12}, {"rows", 24}, {"width", 12}, {"hidden", 12}}}};
  for (const ModelSpec& spec : models) check_random_plans(spec, 8, 1e-12, 1e-5);
}

TEST_CASE("language and vision models train under random plans as on one device") {
  std::map<std::string, std::int64_t> gpt = {{"batch", 12},  {"seq-len", 6}, {"layers", 1},
                                             {"hidden", 12}, {"heads", 6},   {"vocab", 24}};
  ModelSpec fused{"gpt2-small", gpt}, mixture{"moe-transformer", gpt};
  fused.options["fused"] = 1;
  mixture.options.insert({{"experts", 6}, {"balance", 1}});
  mixture.options["layers"] = 2;
  const ModelSpec models[] = {
      {"gpt2-small", gpt},
      fused,
      mixture,
      {"t5-small",
       {{"batch", 12},
        {"seq-len", 6},
        {"target-len", 6},
        {"layers", 1},
        {"hidden", 12},
        {"heads", 6},
        {"head-size", 2},
        {"ffn", 12},
        {"vocab", 24}}},
      {"vit-b16",
       {{"batch", 12}, {"image", 12}, {"patch", 4}, {"layers", 1}, {"hidden", 12}, {"heads", 6}, {"classes", 6}}},
      {"vgg-16", {{"batch", 12}, {"image", 32}, {"classes", 6}, {"hidden", 12}, {"divisor", 16}}}};
  for (const ModelSpec& spec : models) check_random_plans(spec, 8, 1e-12, 1e-5);
}

// Batch norm divides by deviations, which magnifies rounding.
TEST_CASE("models with batch norm train under random plans as on one device") {
  const ModelSpec models[] = {
      {"resnext-50", {{"batch", 12}, {"image", 32}, {"classes", 6}, {"divisor", 16}, {"groups", 4}, {"blocks", 1}}},
      {"inception-v3", {{"batch", 12}, {"image", 75}, {"classes", 6}, {"divisor", 16}}},
      {"resnet-50", {{"batch", 12}, {"image", 32}, {"classes", 6}, {"divisor", 16}, {"blocks", 1}}},
      {"nasnet-a-mobile", {{"batch", 12}, {"image", 32}, {"classes", 6}, {"filters", 4}, {"cells", 1}, {"stem", 4}}}};
  for (const ModelSpec& spec : models) check_random_plans(spec, 4, 1e-9, 1e-1);
}
