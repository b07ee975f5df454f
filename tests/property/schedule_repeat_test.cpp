// A Program of several iterations trains as many steps of the Program do, each on a batch of its own, bit for bit.
#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/graph/text.h"
#include "core/models/models.h"
#include "core/plan/repeat.h"
#include "core/search/pipeline_stages.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"
#include "tests/support/random_plan.h"
#include "tests/support/stub_cost_model.h"
#include "tests/support/training_run.h"

using namespace unity;
using namespace unity::test;

namespace {

// Two runs of all iterations.
void require_equal_steps(const Pcg& serial, const Program& step, int iterations, const Schedule& schedule) {
  Program program = repeat(step, iterations, schedule).value();
  Executor one(step, {"cpu", Precision::f32, 7}), several(program, {"cpu", Precision::f32, 7});
  std::uint64_t seed = seed_of_run();
  for (int run = 0; run < 2; ++run) {
    std::vector<double> losses;
    for (int i = 0; i < iterations; ++i) {
      for (const auto& [name, value] : random_inputs(serial, ++seed)) {
        one.set_input(name, value);
        several.set_input(name, value, i);
      }
      losses.push_back(one.step().loss);
    }
    REQUIRE(several.step().loss == losses.back());
    for (std::size_t i = 0; i < losses.size(); ++i)
      REQUIRE(several.output(i * step.outputs.size()).reals == std::vector{losses[i]});
    REQUIRE(several.steps_done() == one.steps_done());
    for (const std::string& name : one.weight_names())
      REQUIRE(several.gradient(name).reals == one.gradient(name).reals);
    for (const StateTensor& s : one.state()) {
      INFO(s.name);
      REQUIRE(several.state(s.name).reals == one.state(s.name).reals);
    }
  }
}

Plan pipeline(const ModelSpec& spec, const Pcg& serial, const Schedule& schedule, const std::string& optimizer) {
  SimulatedCostModel cost(uniform_topology(4));
  SearchOptions options;
  options.strategy = "pipeline";
  options.optimizer = parse_optimizer(optimizer);
  options.stages = 2, options.micro_batches = 4;
  options.parts = schedule.order == PipelineOrder::interleaved ? 2 : 1;
  options.schedule = schedule;
  return find_plan(spec, serial, cost, options).value();
}

void require_equal_steps(const ModelSpec& spec, const Pcg& serial, const Schedule& schedule, int iterations,
                         const std::string& optimizer = "adam 0.01") {
  INFO(spec.name << ", " << in_words(schedule) << ", " << iterations << " iterations");
  Plan plan = pipeline(spec, serial, schedule, optimizer);
  Program step = lower(plan.pcg, plan.mappings, uniform_topology(4), {true, plan.optimizer, plan.schedule}).value();
  require_equal_steps(serial, step, iterations, schedule);
}

}  // namespace

TEST_CASE("iterations of a pipeline in one program train as many steps do, bit for bit") {
  for (const char* model : {"mlp-tiny", "bert-tiny"})
    for (WeightVersions weights : {WeightVersions::delayed, WeightVersions::newest})
      for (PipelineOrder order :
           {PipelineOrder::one_f_one_b, PipelineOrder::gpipe, PipelineOrder::interleaved, PipelineOrder::zero_bubble})
        for (int iterations : {2, 3}) {
          ModelSpec spec{model, {{"batch", 24}}};
          Schedule schedule{order,  iterations == 3 ? 2 : 0, {100'000}, {"all"}, Offload::activations_and_optimizer,
                            weights};
          require_equal_steps(spec, build_model(spec), schedule, iterations);
        }
}

TEST_CASE("iterations in one program draw masks of their own, and hand on running moments and updates of rows") {
  Builder b("dropout");
  ValueRef h = b.input("x", {24, 16});
  for (int i = 0; i < 4; ++i) {
    Builder::Scope scope(b, "layer." + std::to_string(i));
    h = b.dropout(0.25, b.apply("matmul", {}, {h, b.weight("w", {16, 16})}, "matmul"));
  }
  Pcg dropout = std::move(b).finish({b.apply("cross_entropy", {}, {h, b.input("labels", {24}, DType::i32)})});
  ModelSpec resnext{"resnext-50",
                    {{"batch", 16}, {"image", 32}, {"classes", 6}, {"divisor", 16}, {"groups", 4}, {"blocks", 1}}};
  ModelSpec bert{"bert-tiny", {{"batch", 24}}};
  for (WeightVersions weights : {WeightVersions::delayed, WeightVersions::newest}) {
    Schedule schedule{.order = PipelineOrder::one_f_one_b, .weights = weights};
    require_equal_steps({"dropout", {}}, dropout, schedule, 3);
    require_equal_steps(resnext, build_model(resnext), schedule, 2);
    require_equal_steps(bert, build_model(bert), schedule, 2, "sgd 0.1");
  }
}

TEST_CASE("iterations of random plans in one program train as many steps do") {
  std::mt19937_64 random(seed_of_run());
  INFO("UNITY_TEST_SEED=" << seed_of_run());
  ModelSpec spec{"bert-tiny", {{"batch", 24}}};
  Pcg serial = build_model(spec);
  int done = 0;
  for (int tried = 0; tried < 20; ++tried) {
    int devices = 1 + static_cast<int>(random() % 6);
    Topology topology = uniform_topology(devices);
    State state = random_state(serial, devices, random);
    auto pcg = with_micro_batches(state.pcg, std::vector<int>{1, 2, 4}[random() % 3]);
    if (!pcg.ok()) continue;
    Schedule schedule{static_cast<PipelineOrder>(random() % 2)};
    schedule.overlap = static_cast<int>(random() % 3);
    schedule.weights = static_cast<WeightVersions>(random() % 2);
    auto step = lower(*pcg, random_mappings(*pcg, topology, random), topology,
                      {true, parse_optimizer("sgd 0.1 momentum=0.9"), schedule});
    if (!step.ok()) continue;
    INFO(devices << " devices, " << in_words(schedule) << "\n" << print(*pcg));
    require_equal_steps(serial, *step, 2, schedule);
    ++done;
  }
  CHECK(done >= 5);
}
