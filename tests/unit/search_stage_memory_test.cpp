// What stages of pipelines are estimated to hold, beside what their Programs hold; and estimates of unequal devices.

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/search/search.h"
#include "core/search/stage_estimate.h"
#include "core/search/stage_layers.h"
#include "core/search/stage_memory.h"
#include "core/search/staged_plan.h"
#include "core/search/submesh.h"
#include "simulator/cost_model.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

// Stages of about equal FLOPs on as many devices each, data-parallel inside.
StagedPlan even_stages(IntraPlans& plans, int stages, int width, int micro_batches) {
  StagedPlan plan{.micro_batches = micro_batches};
  plan.ends = cluster_layers(plans, stages);
  for (int s = 0; s < stages; ++s) plan.devices.push_back({s * width, width});
  plan.plans.assign(plans.operators().size(), {width, 1, {}});
  return plan;
}

}  // namespace

TEST_CASE("gradients of weights come as what the forward pass left is used up") {
  // Two operators hold 3 and 5 bytes of a micro-batch; their weights have gradients of 4 and 1; 2 and 6 are transient.
  // The second one's turn comes first: 3 + 5 + 6 and its gradient, 15; then 3 + 2 and both gradients, 10. What of a
  // turn is there without gradients: 14, 5.
  StageNeeds needs{.persistent = 20};
  needs.add(3, 4, 2), needs.add(5, 1, 6);
  StageNeeds first, last;
  first.add(3, 4, 2), last.add(5, 1, 6), first.append(last);
  CHECK(first.first_turn == 15);
  CHECK(needs.in_flight == 8);
  CHECK(needs.turn == 14);
  CHECK(needs.first_turn == 15);
  CHECK(needs.peak(1, 1) == 30);  // 20 with the gradients' 5
  CHECK(needs.peak(1, 4) == 34);
  CHECK(needs.peak(2, 4) == 42);
  CHECK(needs.peak(2, 2) == 38);  // 15 + 8 + 15 in the first turn, 20 + 14 in the second
}

TEST_CASE("stages need the memory that they are estimated to need, within a tenth") {
  struct Try {
    ModelSpec spec;
    bool waits = false;
  };
  for (const Try& t :
       {Try{{"bert-large", {{"batch", 48}, {"layers", 4}}}}, Try{{"gpt2-small", {{"batch", 24}, {"layers", 4}}}},
        Try{{"resnext-50", {{"batch", 48}}}, true}, Try{{"candle-uno", {{"batch", 384}}}}}) {
    Pcg model = build_model(t.spec);
    for (bool fused : {false, true}) {
      if (fused && t.spec.name != "bert-large") continue;
      if (fused) {
        SearchOptions serial;
        serial.budget = 60;
        SimulatedCostModel one(load_topology("summit", {1, 1}));
        model = find_plan(t.spec, model, one, serial).value().pcg;
      }
      SimulatedCostModel cost(load_topology("summit", {2, {}}));
      for (PipelineOrder order : {PipelineOrder::gpipe, PipelineOrder::one_f_one_b}) {
        SearchOptions options;
        options.schedule.order = order;
        Evaluator evaluator(cost, {true, {}, options.schedule}, {});
        StrategyInput input{model, evaluator, options, 12};
        IntraPlans plans(model, input);
        CHECK(plans.waits_for_batch() == t.waits);
        plans.prepare({3, 4, 6, 12});
        StageEstimates estimates(input, plans);
        for (auto [stages, width, micro_batches] : {std::tuple{2, 6, 1}, {2, 6, 4}, {3, 4, 2}, {4, 3, 8}}) {
          StagedPlan plan = even_stages(plans, stages, width, micro_batches);
          if (!plans.has_micro_batches(plan.plans[0], micro_batches)) continue;
          INFO(t.spec.name << (fused ? " rewritten: " : ": ") << to_string(plan) << ", " << to_string(order));
          Outcome outcome = build_staged(plans, plan, input).value();
          std::vector<double> peaks = estimates.peaks(plan);
          REQUIRE(peaks.size() == plan.ends.size());
          double most = 0;
          for (double peak : peaks) most = std::max(most, peak);
          const auto needs = static_cast<double>(outcome.candidate.score.peak().count);
          CHECK(most == Approx(needs).epsilon(0.1));
        }
      }
    }
  }
}

TEST_CASE("a stage takes as long as its slowest devices take, and what they can hold is its own") {
  // Eight A100, then eight V100.
  SimulatedCostModel cost(load_topology("mixed-gpus"));
  Evaluator evaluator(cost, {true, {}, {}}, {});
  Pcg model = build_model({"mlp", {}});
  StrategyInput input{model, evaluator, {}, 16};
  IntraPlans plans(model, input);
  plans.prepare({8, 16});
  StageEstimates estimates(input, plans);
  auto time = [&](const IntraPlan& plan, const Resources& devices) {
    return estimates.costs().sums(plan, 1, devices).compute.back();
  };
  CHECK(time({8, 1, {}}, {8, 8}) > 1.2 * time({8, 1, {}}, {0, 8}));
  const IntraCosts::Sums& both = estimates.costs().sums({16, 1, {}}, 1, {0, 16});
  CHECK(both.time.back() > both.compute.back());
  for (const Submesh& mesh : submeshes(cost.topology(), 16))
    if (mesh.width == 8) CHECK(std::count(mesh.starts.begin(), mesh.starts.end(), true) == 1);
}
