// Chains keep every bit: losses, gradients, weights and optimizer states after a step of random plans, with what is
// element-wise fused and without, on the CPU's threads.
#include <algorithm>

#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/models/models.h"
#include "core/models/transformer_layers.h"
#include "core/ops/chain.h"
#include "core/plan/lower.h"
#include "core/plan/repeat.h"
#include "core/plan/stages.h"
#include "core/search/data_parallel.h"
#include "core/search/pipeline_stages.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"
#include "simulator/simulate.h"
#include "tests/support/random_plan.h"
#include "tests/support/stub_cost_model.h"
#include "tests/support/training_run.h"

using namespace unity;
using namespace unity::test;

namespace {

int chains(const Program& program) {
  return static_cast<int>(std::count_if(program.tasks.begin(), program.tasks.end(), [&](const Task& t) {
    return t.kind == TaskKind::compute && program.ops[static_cast<std::size_t>(t.op)].chain;
  }));
}

bool equal(const std::map<std::string, HostTensor>& a, const std::map<std::string, HostTensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.reals == y.second.reals && x.second.indices == y.second.indices;
  });
}

// Runs both in f32 and f64, and gives the number of chains.
int require_every_bit(const Program& apart, const Program& fused, const std::map<std::string, HostTensor>& inputs) {
  check_program(fused).value();
  REQUIRE(chains(apart) == 0);
  for (Precision precision : {Precision::f32, Precision::f64}) {
    Run a = run(apart, inputs, precision), b = run(fused, inputs, precision);
    REQUIRE(a.loss == b.loss);
    REQUIRE(equal(a.gradients, b.gradients));
    REQUIRE(equal(a.states, b.states));
  }
  return chains(fused);
}

Schedule random_schedule(std::mt19937_64& random) {
  Schedule s;
  s.order = static_cast<PipelineOrder>(random() % 4);
  s.overlap = static_cast<int>(random() % 3);
  s.bucket = {static_cast<std::int64_t>(std::vector<int>{0, 1000, 1 << 30}[random() % 3])};
  if (random() % 2) s.remat = {"all"};
  s.offload = static_cast<Offload>(random() % 4);
  s.zero_stage = static_cast<int>(random() % 4);
  return s;
}

Schedule with_chains(Schedule schedule) {
  schedule.fuse = Fuse::chains;
  return schedule;
}

// Blocks with dropout, and gelu made of its parts.
Pcg with_parts() {
  Builder b("parts");
  ValueRef x = b.input("x", {24, 16});
  for (int i = 0; i < 3; ++i) {
    Builder::Scope scope(b, "layer." + std::to_string(i));
    ValueRef h = b.apply("add", {}, {b.apply("matmul", {}, {x, b.weight("w", {16, 16})}), b.weight("b", {16})});
    x = b.apply("add", {}, {x, b.dropout(0.25, gelu_tanh(b, h, "gelu"))}, "residual");
  }
  return std::move(b).finish({b.apply("cross_entropy", {}, {x, b.input("labels", {24}, DType::i32)})});
}

}  // namespace

TEST_CASE("chains keep every bit of random plans under random schedules") {
  std::mt19937_64 random(seed_of_run());
  INFO("UNITY_TEST_SEED=" << seed_of_run());
  int done = 0, found = 0;
  const std::vector<ModelSpec> models = {
      {"mlp-tiny", {{"batch", 24}}},
      {"bert-tiny", {{"batch", 24}}},
      {"parts", {}},
      {"dlrm", {{"batch", 24}, {"hidden", 16}, {"width", 4}, {"rows", 10}}},
  };
  for (const ModelSpec& model : models) {
    Pcg serial = model.name == "parts" ? with_parts() : build_model(model);
    auto inputs = random_inputs(serial, seed_of_run());
    for (int tried = 0; tried < 12; ++tried) {
      int devices = 1 + static_cast<int>(random() % 4);
      Topology topology = uniform_topology(devices);
      auto pcg = with_micro_batches(random_state(serial, devices, random).pcg, std::vector<int>{1, 2, 4}[random() % 3]);
      if (!pcg.ok()) continue;
      auto mappings = random_mappings(*pcg, topology, random);
      Schedule schedule = random_schedule(random);
      OptimizerSpec optimizer = parse_optimizer("sgd 0.1 momentum=0.9");
      auto apart = lower(*pcg, mappings, topology, {true, optimizer, schedule});
      if (!apart.ok()) continue;
      Program fused = lower(*pcg, mappings, topology, {true, optimizer, with_chains(schedule)}).value();
      INFO(model.name << " on " << devices << " devices, " << in_words(schedule));
      found += require_every_bit(*apart, fused, inputs);
      // What is simulated are the same tasks, and they end.
      REQUIRE(simulate(fused, topology).trace.spans.size() >= fused.tasks.size());
      ++done;
    }
  }
  CHECK(done >= 20);
  CHECK(found >= 5 * done);
}

TEST_CASE("chains keep every bit of pipelines in every order, with what is computed again, and their stages") {
  const ModelSpec model{"bert-tiny", {{"batch", 24}}};
  Pcg serial = build_model(model);
  auto inputs = random_inputs(serial, seed_of_run());
  for (PipelineOrder order : {PipelineOrder::gpipe, PipelineOrder::one_f_one_b, PipelineOrder::zero_bubble})
    for (bool again : {false, true}) {
      SimulatedCostModel cost(uniform_topology(4));
      SearchOptions options;
      options.strategy = "pipeline";
      options.optimizer = parse_optimizer("sgd 0.1 momentum=0.9");
      options.stages = 2, options.micro_batches = 4;
      options.schedule.order = order;
      Plan plan = find_plan(model, serial, cost, options).value();
      if (again) plan.schedule.remat = {"blocks"};
      auto lowered = [&](Schedule schedule) {
        return lower(plan.pcg, plan.mappings, uniform_topology(4), {true, plan.optimizer, schedule}).value();
      };
      INFO(in_words(plan.schedule));
      Program apart = lowered(plan.schedule), fused = lowered(with_chains(plan.schedule));
      CHECK(require_every_bit(apart, fused, inputs) >= 40);
      CHECK(fused.tasks.size() < apart.tasks.size());
      PipelineStages a = find_stages(apart), b = find_stages(fused);
      CHECK(a.groups == b.groups);
      CHECK(a.chain.size() == b.chain.size());
      CHECK(a.micro_batches == b.micro_batches);
      for (const Task& t : fused.tasks)
        if (t.kind == TaskKind::compute && fused.ops[static_cast<std::size_t>(t.op)].chain)
          CHECK(b.place[static_cast<std::size_t>(t.op)] >= 0);
    }
}

TEST_CASE("chains keep every bit of several steps in one program, with weights of one update before") {
  const ModelSpec model{"bert-tiny", {{"batch", 24}}};
  Pcg serial = build_model(model);
  SimulatedCostModel cost(uniform_topology(2));
  SearchOptions options;
  options.strategy = "pipeline";
  options.optimizer = parse_optimizer("sgd 0.1 momentum=0.9");
  options.stages = 2, options.micro_batches = 4;
  options.schedule.order = PipelineOrder::one_f_one_b;
  Plan plan = find_plan(model, serial, cost, options).value();
  plan.schedule.weights = WeightVersions::delayed;
  auto inputs = random_inputs(serial, seed_of_run());
  auto steps = [&](Schedule schedule) {
    Program step = lower(plan.pcg, plan.mappings, uniform_topology(2), {true, plan.optimizer, schedule}).value();
    return repeat(step, 3, schedule).value();
  };
  Program apart = steps(plan.schedule), fused = steps(with_chains(plan.schedule));
  CHECK(chains(fused) >= 40);
  auto states = [&](const Program& program) {
    Executor executor(program, {"cpu", Precision::f32, 7});
    for (const auto& [name, value] : inputs)
      for (int i = 0; i < 3; ++i) executor.set_input(name, value, i);
    executor.step();
    std::map<std::string, HostTensor> states;
    for (const StateTensor& s : executor.state()) states.emplace(s.name, executor.state(s.name));
    return states;
  };
  CHECK(equal(states(apart), states(fused)));
}

TEST_CASE("a search for a plan with chains gives the one that it finds without, and no certificate") {
  const ModelSpec model{"bert-tiny", {{"batch", 24}}};
  Pcg serial = build_model(model);
  SimulatedCostModel cost(uniform_topology(2));
  SearchOptions options;
  options.budget = 20;
  Plan apart = find_plan(model, serial, cost, options).value();
  options.schedule.fuse = Fuse::chains;
  Plan fused = find_plan(model, serial, cost, options).value();
  CHECK(canonical_hash(fused.pcg) == canonical_hash(apart.pcg));
  CHECK(fused.mappings == apart.mappings);
  CHECK(fused.schedule == with_chains(apart.schedule));
  CHECK(apart.optimality_gap());
  CHECK(!fused.optimality_gap());
  CHECK(fused.prediction.iteration < apart.prediction.iteration);
  CHECK(fused.prediction.peak_memory <= apart.prediction.peak_memory);
  CHECK(fused.prediction.communicated == apart.prediction.communicated);
}
