// Pipelines whose stages have widths and plans of their own train like one device: random cuts, devices, plans inside,
// micro-batches and orders, run by the executor in f64 and f32. And none is simulated faster than its bound.

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/search/mixed_pipelines.h"
#include "core/search/stage_estimate.h"
#include "core/search/staged_plan.h"
#include "simulator/cost_model.h"
#include "tests/support/paths.h"
#include "tests/support/stub_cost_model.h"
#include "tests/support/training_run.h"

using namespace unity;
using namespace unity::test;

namespace {

std::size_t below(std::mt19937_64& random, std::size_t n) { return static_cast<std::size_t>(random() % n); }

PipelineOrder drawn_order(std::mt19937_64& random) {
  return std::vector{PipelineOrder::gpipe, PipelineOrder::one_f_one_b, PipelineOrder::zero_bubble}[below(random, 3)];
}

StagedPlan random_staged(IntraPlans& plans, int devices, std::mt19937_64& random) {
  std::size_t operators = plans.operators().size();
  StagedPlan plan;
  plan.micro_batches = std::vector<int>{2, 3, 4}[below(random, 3)];
  plan.stored_parts = below(random, 3) == 0;
  int device = 0;
  for (std::size_t begin = 0; begin < operators;) {
    int left = devices - device;
    int width = 1 + static_cast<int>(below(random, static_cast<std::size_t>(std::min(left, 4))));
    bool last = width == left || below(random, 4) == 0;
    std::size_t end = last ? operators : begin + 1 + below(random, std::max<std::size_t>(1, (operators - begin) / 2));
    std::vector<IntraPlan> inside = plans.of_width(width);
    std::erase_if(inside, [&](const IntraPlan& p) { return !plans.has_micro_batches(p, plan.micro_batches); });
    if (inside.empty()) continue;
    IntraPlan current = inside[below(random, inside.size())];
    for (std::size_t k = begin; k < end; ++k) {
      if (below(random, 6) == 0) current = inside[below(random, inside.size())];
      plan.plans.push_back(current);
    }
    plan.ends.push_back(end), plan.devices.push_back({device, width});
    begin = end, device += width;
  }
  // Some go around the groups of devices twice or three times, in parts of any size.
  if (auto parts = in_parts(plans, plan, 2 + static_cast<int>(below(random, 2))); parts && below(random, 3) == 0) {
    parts->micro_batches *= static_cast<int>(groups_of(plan));
    std::vector<IntraPlan> inside;
    for (std::size_t s = 0; s < parts->ends.size(); ++s) inside.push_back(parts->plans[parts->ends[s] - 1]);
    for (std::size_t s = 0, k = 0; s < parts->ends.size(); ++s) {
      if (s + 1 < parts->ends.size() && below(random, 2) == 0)
        parts->ends[s] = k + 1 + below(random, parts->ends[s + 1] - k - 1);
      for (; k < parts->ends[s]; ++k) parts->plans[k] = inside[s];
    }
    plan = std::move(*parts);
  }
  return plan;
}

// Some of its operators take the batch at once.
StagedPlan random_mixed(IntraPlans& plans, const StrategyInput& input, const StagedPlan& plan,
                        std::mt19937_64& random) {
  std::vector<std::size_t> ends;
  for (std::size_t k = 1; k <= plan.plans.size(); ++k) ends.push_back(k);
  const std::vector<int> micro_batches = {2, 3, 4};
  std::vector<StagedPlan> all;
  for (const MixedPipelines& groups :
       mixed_pipelines(plans, StageEstimates(input, plans), plan, {ends, micro_batches}, input.devices))
    for (const std::vector<StagedPlan>& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all.empty() ? plan : all[below(random, all.size())];
}

}  // namespace

TEST_CASE("stages of random widths, plans and micro-batches equal one device") {
  std::mt19937_64 random(seed_of_run());
  INFO("UNITY_TEST_SEED=" << seed_of_run());
  int run_so_far = 0, several_widths = 0, in_parts = 0, mixed = 0;
  for (const ModelSpec& spec : {ModelSpec{"mlp-tiny", {{"batch", 24}}}, ModelSpec{"bert-tiny", {{"batch", 24}}},
                                ModelSpec{"dlrm", {{"batch", 24}, {"hidden", 16}, {"width", 4}, {"rows", 10}}},
                                ModelSpec{std::string(UNITY_SOURCE_DIR) + "/experiments/models/two-tower.yaml", {}}}) {
    Pcg serial = build_model(spec);
    auto inputs = random_inputs(serial, seed_of_run());
    Program one = lower(serial, std::vector<MachineMapping>(serial.size()), uniform_topology(1)).value();
    Run exact = run(one, inputs, Precision::f64), rounded = run(one, inputs, Precision::f32);
    auto scale = scales(exact);
    for (int tried = 0; tried < 25; ++tried) {
      int devices = 2 + static_cast<int>(below(random, 5));
      SimulatedCostModel cost(uniform_topology(devices));
      SearchOptions options;
      options.schedule.order = drawn_order(random);
      Evaluator evaluator(cost, {true, {}, options.schedule}, {});
      StrategyInput input{serial, evaluator, options, devices};
      IntraPlans plans(serial, input);
      StagedPlan plan = random_staged(plans, devices, random);
      if (below(random, 2) == 0) plan = random_mixed(plans, input, plan, random);
      INFO(spec.name << " on " << devices << " devices: " << to_string(plan) << ", "
                     << to_string(options.schedule.order));
      auto outcome = build_staged(plans, plan, input);
      if (!outcome.ok()) continue;  // 1F1B refuses some graphs, and some have no weights to store in parts
      const Candidate& c = outcome->candidate;
      Program program = lower(c.pcg, c.mappings, uniform_topology(devices), {true, {}, c.schedule}).value();
      check_program(program).value();
      REQUIRE(distance(run(program, inputs, Precision::f64), exact, scale) <= 1e-12);
      REQUIRE(distance(run(program, inputs, Precision::f32), rounded, scale) <= 1e-5);
      ++run_so_far;
      mixed += !plan.whole.empty();
      in_parts += is_interleaved(plan);
      several_widths += std::any_of(plan.devices.begin(), plan.devices.end(),
                                    [&](const Resources& r) { return r.count != plan.devices[0].count; });
    }
  }
  CHECK(run_so_far >= 30);
  CHECK(several_widths >= 8);
  CHECK(in_parts >= 2);
  CHECK(mixed >= 8);
}

// What a search does not simulate since its bound is too long must not have been the best: it asks for a bound that is
// 5% longer than the best time.
constexpr double kAsGood = 1.01;

TEST_CASE("no pipeline is simulated faster than what its stages compute") {
  std::mt19937_64 random(seed_of_run());
  INFO("UNITY_TEST_SEED=" << seed_of_run());
  int simulated = 0, close = 0;
  for (const ModelSpec& spec :
       {ModelSpec{"mlp", {{"batch", 768}}}, ModelSpec{"bert-large", {{"batch", 24}, {"layers", 2}}},
        ModelSpec{"dlrm", {{"batch", 3072}, {"rows", 10000}}}, ModelSpec{"candle-uno", {{"batch", 768}}}}) {
    Pcg serial = build_model(spec);
    for (int nodes : {1, 2, 0}) {  // 0: a node of A100 and one of V100
      SimulatedCostModel cost(nodes > 0 ? load_topology("summit", {nodes, {}}) : load_topology("mixed-gpus"));
      const auto devices = static_cast<int>(cost.topology().device_count());
      for (int tried = 0; tried < 12; ++tried) {
        SearchOptions options;
        options.schedule.order = drawn_order(random);
        if (below(random, 3) == 0) options.schedule.bucket = Bytes{25'000'000};
        if (options.schedule.order == PipelineOrder::one_f_one_b && below(random, 4) == 0)
          options.schedule.weights = WeightVersions::delayed;
        Evaluator evaluator(cost, {true, {}, options.schedule}, {});
        StrategyInput input{serial, evaluator, options, devices};
        IntraPlans plans(serial, input);
        StagedPlan plan = random_staged(plans, devices, random);
        plan.bucket = options.schedule.bucket;
        INFO(spec.name << " on " << devices << " devices: " << to_string(plan) << ", ends at "
                       << fmt::format("{}", fmt::join(plan.ends, " ")) << ", " << in_words(options.schedule));
        auto outcome = build_staged(plans, plan, input);
        if (!outcome.ok()) continue;
        StageEstimates::Estimate estimate = StageEstimates(input, plans).of(plan);
        CHECK(estimate.least <= kAsGood * static_cast<double>(outcome->candidate.score.iteration.count));
        CHECK(estimate.least > 0);
        ++simulated;
        close += 3 * estimate.least > outcome->candidate.score.iteration.count;
      }
    }
  }
  CHECK(simulated >= 20);
  CHECK(close >= 5);
}
