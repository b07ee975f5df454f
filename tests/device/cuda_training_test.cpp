// Training on a GPU: several logical devices on it, under data-parallel, random and one-device plans, equals training
// on one CPU device.
#include <cmath>
#include <cstdlib>

#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/models/models.h"
#include "core/models/transformer_layers.h"
#include "core/plan/lower.h"
#include "core/search/search.h"
#include "tests/device/gpu.h"
#include "tests/support/random_plan.h"
#include "tests/support/stub_cost_model.h"
#include "tests/support/training_run.h"

using namespace unity;
using namespace unity::test;

namespace {

std::vector<ModelSpec> reduced_models() {
  std::map<std::string, std::int64_t> gpt = {{"batch", 12},  {"seq-len", 6}, {"layers", 1},
                                             {"hidden", 12}, {"heads", 6},   {"vocab", 24}};
  return {{"mlp", {{"batch", 12}, {"layers", 3}, {"hidden", 24}}},
          {"bert-large", {{"batch", 12}, {"seq-len", 6}, {"layers", 1}, {"hidden", 12}, {"heads", 6}, {"vocab", 24}}},
          {"candle-uno", {{"batch", 12}, {"layers", 2}, {"top-layers", 2}, {"hidden", 12}, {"features", 24}}},
          {"dlrm", {{"batch", 12}, {"hidden", 48}, {"width", 12}, {"rows", 24}}},
          {"xdl", {{"batch", 12}, {"rows", 24}, {"width", 12}, {"hidden", 12}}},
          {"resnext-50", {{"batch", 12}, {"image", 32}, {"classes", 6}, {"divisor", 16}, {"groups", 4}, {"blocks", 1}}},
          {"inception-v3", {{"batch", 6}, {"image", 75}, {"classes", 6}, {"divisor", 16}}},
          {"gpt2-small", gpt},
          {"vit-b16",
           {{"batch", 12}, {"image", 12}, {"patch", 4}, {"layers", 1}, {"hidden", 12}, {"heads", 6}, {"classes", 6}}},
          {"vgg-16", {{"batch", 12}, {"image", 32}, {"classes", 6}, {"hidden", 12}, {"divisor", 16}}}};
}

// Four steps, of which a GPU takes the second and later ones by the captured graph. With `expected` each step begins
// with the state that the steps expected had there: rounding grows from step to step, a thousandfold and more where
// batch norm goes deep over small batches (inception-v3: inputs off by 1e-15 move the fourth loss by 1e-7 and more, on
// one CPU device), which says nothing about who computes.
struct Steps {
  std::vector<double> losses;
  std::vector<std::map<std::string, HostTensor>> states;  // behind each step
};
Steps steps(const Program& program, const std::map<std::string, HostTensor>& inputs, const std::string& backend,
            const Steps* expected = nullptr) {
  Executor executor(program, {backend, Precision::f64, 7});
  for (const ProgramLeaf& leaf : executor.inputs()) executor.set_input(leaf.name, inputs.at(leaf.name));
  Steps all;
  for (std::size_t i = 0; i < 4; ++i) {
    for (const StateTensor& s : executor.state())
      if (expected && i > 0) executor.set_state(s.name, expected->states[i - 1].at(s.name));
    all.losses.push_back(executor.step().loss);
    all.states.emplace_back();
    for (const StateTensor& s : executor.state()) all.states.back().emplace(s.name, executor.state(s.name));
  }
  return all;
}

// The norm of all differences over that of all expected.
double distance(const std::map<std::string, HostTensor>& found, const std::map<std::string, HostTensor>& expected) {
  double difference = 0, whole = 0;
  for (const auto& [name, value] : expected) {
    HostTensor off = found.at(name);
    for (std::size_t i = 0; i < off.reals.size(); ++i) off.reals[i] -= value.reals[i];
    difference += norm(off) * norm(off), whole += norm(value) * norm(value);
  }
  return std::sqrt(difference / whole);
}

// Random plans of each model: UNITY_TEST_PLANS, or 3.
int plans_of_each() {
  const char* asked = std::getenv("UNITY_TEST_PLANS");
  return asked ? std::atoi(asked) : 3;
}

// In double precision: every gradient after one step, and the losses and states of four steps.
void check_model(const ModelSpec& spec, const std::string& backend, int plans) {
  Pcg pcg = build_model(spec);
  std::uint64_t seed = seed_of_run();
  std::mt19937_64 random(seed);
  auto inputs = random_inputs(pcg, seed);
  Program serial = lower(pcg, std::vector<MachineMapping>(pcg.size()), uniform_topology(1)).value();
  Run exact = run(serial, inputs, Precision::f64);
  auto scale = scales(exact);
  Steps expected = steps(serial, inputs, "cpu");
  for (int plan = 0; plan <= plans; ++plan) {
    int devices = plan == 0 ? 1 : 2 + static_cast<int>(random() % 3);
    Topology topology = uniform_topology(devices);
    State state{pcg, {}, {}};
    if (plan > 0) state = random_state(pcg, devices, random);
    auto where = plan > 0 ? random_mappings(state.pcg, topology, random) : std::vector<MachineMapping>(pcg.size());
    INFO("UNITY_TEST_SEED=" << seed << ", " << spec.name << ", plan " << plan << " on " << devices << " devices");
    Program program = lower(state.pcg, where, topology).value();
    Run found = run(program, inputs, Precision::f64, backend);
    CHECK(distance(found, exact, scale, 1e-9) <= 1e-9);
    Steps all = steps(program, inputs, backend, &expected);
    for (std::size_t i = 0; i < all.losses.size(); ++i) {
      INFO("step " << i);
      CHECK(all.losses[i] == Approx(expected.losses[i]).epsilon(1e-9));
      CHECK(distance(all.states[i], expected.states[i]) <= 1e-9);
    }
  }
}

}  // namespace

TEST_CASE("one model trains in four steps as by the comparison with itself on the CPU") {
  check_model(reduced_models()[0], "cpu", 2);
}

TEST_CASE("every kind of model trains on the GPU under several plans as on one CPU device") {
  if (!gpu_or_skip()) return;
  for (const ModelSpec& spec : reduced_models()) DYNAMIC_SECTION(spec.name) {
      check_model(spec, "cuda", plans_of_each());
    }
}

TEST_CASE("a pipeline with buckets and rematerialisation trains on the GPU as one CPU device") {
  if (!gpu_or_skip()) return;
  Pcg serial = build_model({"bert-tiny", {{"batch", 24}}});
  auto inputs = random_inputs(serial, 3);
  Run exact = run(lower(serial, std::vector<MachineMapping>(serial.size()), uniform_topology(1)).value(), inputs,
                  Precision::f64);
  SearchOptions options;
  options.strategy = "pipeline", options.stages = 2, options.micro_batches = 4;
  options.schedule = {PipelineOrder::one_f_one_b, 2, {1'000'000}, {"blocks"}};
  StubCostModel cost(uniform_topology(4));
  Plan plan = find_plan({"bert-tiny", {}}, serial, cost, options).value();
  Program program = lower(plan.pcg, plan.mappings, uniform_topology(4), {true, plan.optimizer, plan.schedule}).value();
  CHECK(distance(run(program, inputs, Precision::f64, "cuda"), exact, scales(exact), 1e-9) <= 1e-9);
}

TEST_CASE("activations and optimizer states that wait on the host train on the GPU as one CPU device") {
  if (!gpu_or_skip()) return;
  const ModelSpec small{"bert-large",
                        {{"batch", 24}, {"seq-len", 6}, {"layers", 4}, {"hidden", 12}, {"heads", 6}, {"vocab", 24}}};
  Pcg serial = build_model(small);
  auto inputs = random_inputs(serial, 3);
  OptimizerSpec momentum = parse_optimizer("sgd 0.05 momentum=0.9");
  auto on_one = [&](Offload what) {
    return lower(serial, std::vector<MachineMapping>(serial.size()), uniform_topology(1),
                 {true, momentum, {.offload = what}})
        .value();
  };
  Steps expected = steps(on_one(Offload::none), inputs, "cpu");
  SearchOptions options;
  options.strategy = "pipeline", options.stages = 2, options.micro_batches = 4;
  options.schedule = {PipelineOrder::one_f_one_b, 2, {1'000}, {"blocks"}};
  StubCostModel cost(uniform_topology(4));
  Plan plan = find_plan(small, serial, cost, options).value();
  for (Offload what : {Offload::activations, Offload::optimizer, Offload::activations_and_optimizer}) {
    plan.schedule.offload = what;
    for (const Program& program :
         {on_one(what), lower(plan.pcg, plan.mappings, uniform_topology(4), {true, momentum, plan.schedule}).value()}) {
      INFO(to_string(what) << " of " << program.devices << " devices");
      CHECK(std::any_of(program.tasks.begin(), program.tasks.end(), [&](const Task& t) {
        return program.copies_to_host(t) && (t.phase == Phase::update) == (what == Offload::optimizer);
      }));
      Steps found = steps(program, inputs, "cuda", &expected);
      for (std::size_t i = 0; i < found.losses.size(); ++i) {
        INFO("step " << i);
        CHECK(found.losses[i] == Approx(expected.losses[i]).epsilon(1e-9));
        CHECK(distance(found.states[i], expected.states[i]) <= 1e-9);
      }
    }
  }
}

TEST_CASE("with two weight versions training goes down on the GPU as on the CPU, in bf16, too") {
  if (!gpu_or_skip()) return;
  Pcg serial = build_model({"mlp-tiny", {{"batch", 24}}});
  auto inputs = random_inputs(serial, 3);
  SearchOptions options;
  options.strategy = "pipeline", options.stages = 2, options.micro_batches = 4;
  options.schedule.weights = WeightVersions::delayed;
  StubCostModel cost(uniform_topology(2));
  Plan plan = find_plan({"mlp-tiny", {}}, serial, cost, options).value();
  Program program =
      lower(plan.pcg, plan.mappings, uniform_topology(2), {true, parse_optimizer("sgd 0.05"), plan.schedule}).value();
  auto losses = [&](const std::string& on, Precision precision) {
    Executor executor(program, {on, precision, 7});
    for (const ProgramLeaf& leaf : executor.inputs()) executor.set_input(leaf.name, inputs.at(leaf.name));
    std::vector<double> all;
    for (int i = 0; i < 20; ++i) all.push_back(executor.step().loss);
    return all;
  };
  std::vector<double> expected = losses("cpu", Precision::f64), exact = losses("cuda", Precision::f64),
                      rounded = losses("cuda", Precision::bf16);
  REQUIRE(expected.back() < 0.8 * expected.front());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(exact[i] == Approx(expected[i]).epsilon(1e-8));
    CHECK(rounded[i] == Approx(expected[i]).epsilon(5e-2));
  }
}

TEST_CASE("training on the GPU in bf16 and TF32 goes down like that in f32") {
  if (!gpu_or_skip()) return;
  Pcg pcg = build_model({"mlp-tiny", {}});
  auto inputs = random_inputs(pcg, 3);
  Program program = lower(pcg, std::vector<MachineMapping>(pcg.size()), uniform_topology(1)).value();
  auto last = [&](const std::string& on, Precision precision) {
    Executor executor(program, {on, precision, 7});
    for (const ProgramLeaf& leaf : executor.inputs()) executor.set_input(leaf.name, inputs.at(leaf.name));
    double loss = 0;
    for (int i = 0; i < 30; ++i) loss = executor.step().loss;
    return loss;
  };
  double expected = last("cpu", Precision::f32);
  CHECK(last("cuda", Precision::f32) == Approx(expected).epsilon(1e-4));
  CHECK(last("cuda", Precision::tf32) == Approx(expected).epsilon(1e-2));
  CHECK(last("cuda", Precision::bf16) == Approx(expected).epsilon(5e-2));
}

TEST_CASE("chains of operators, led by products or not, train on the GPU as one CPU device, in every precision") {
  if (!gpu_or_skip()) return;
  // With a bias and relu, a bias and gelu, gelu made of its parts, dropout, and what goes around.
  Builder b("chains");
  ValueRef x = b.input("x", {32, 64});
  for (int i = 0; i < 3; ++i) {
    Builder::Scope scope(b, "layer." + std::to_string(i));
    auto dense = [&](ValueRef of, const std::string& name) {
      return b.apply("add", {},
                     {b.apply("matmul", {}, {of, b.weight(name, {64, 64})}), b.weight(name + ".bias", {64})});
    };
    ValueRef h = b.apply("gelu", {}, {dense(b.apply("relu", {}, {dense(x, "in")}), "middle")});
    x = b.apply("add", {}, {x, b.dropout(0.25, gelu_tanh(b, dense(h, "out"), "gelu"))}, "residual");
  }
  Pcg pcg = std::move(b).finish({b.apply("cross_entropy", {}, {x, b.input("labels", {32}, DType::i32)})});
  auto inputs = random_inputs(pcg, 3);
  auto lowered = [&](Fuse fuse) {
    return lower(pcg, std::vector<MachineMapping>(pcg.size()), uniform_topology(1),
                 {true, parse_optimizer("sgd 0.05"), {.fuse = fuse}})
        .value();
  };
  Program apart = lowered(Fuse::none), fused = lowered(Fuse::chains);
  CHECK(fused.tasks.size() < apart.tasks.size());
  Run exact = run(apart, inputs, Precision::f64);
  auto scale = scales(exact);
  auto off = [&](const Program& program, Precision precision) {
    double tolerance = precision == Precision::f64 ? 1e-9 : precision == Precision::f32 ? 1e-4 : 0.1;
    return distance(run(program, inputs, precision, "cuda"), exact, scale, tolerance);
  };
  CHECK(off(fused, Precision::f64) <= 1e-9);
  CHECK(off(fused, Precision::f32) <= 1e-4);
  // As near as tasks one by one, but for what rounds at other places.
  for (Precision precision : {Precision::tf32, Precision::bf16}) {
    INFO(to_string(precision));
    CHECK(off(fused, precision) <= 2 * off(apart, precision) + 1e-3);
  }
}
