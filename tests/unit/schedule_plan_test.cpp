#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/plan/pipeline_order.h"
#include "core/search/device_speeds.h"
#include "core/search/pipeline_stages.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"
#include "tests/support/checksum.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

Result<Plan> pipeline(const std::string& model, int devices, SearchOptions options) {
  ModelSpec spec{model, {{"batch", 24}}};
  SimulatedCostModel cost(uniform_topology(devices));
  options.strategy = "pipeline";
  return find_plan(spec, build_model(spec), cost, options);
}

}  // namespace

TEST_CASE("a plan's schedule comes back from its file; a file without one has the usual") {
  Plan plan = pipeline("mlp-tiny", 2, {}).value();
  plan.schedule = {PipelineOrder::one_f_one_b, 2, {25'000'000}, {"encoder.0", "head"}, Offload::activations};
  plan.schedule.fuse = Fuse::chains;
  std::string text = files::without_checksum(plan_to_json(plan));
  CHECK(plan_from_json(text, "p.json").schedule == plan.schedule);
  std::size_t begin = text.find(" \"schedule\""), end = text.find("},\n", begin) + 3;
  CHECK(plan_from_json(text.substr(0, begin) + text.substr(end), "p.json").schedule == Schedule{});
  std::string damaged = text;
  damaged.replace(damaged.find("1f1b"), 4, "2f2b");
  CHECK_THROWS_WITH(plan_from_json(damaged, "p.json"),
                    "p.json: plan.schedule.order: found '2f2b', expected gpipe, 1f1b, interleaved, zb-h1");
  damaged = text;
  damaged.replace(damaged.find("\"overlap\": 2"), 12, "\"overlap\": -2");
  CHECK_THROWS_WITH(plan_from_json(damaged, "p.json"), "p.json: plan.schedule.overlap: found -2, expected at least 0");
  damaged = text;
  damaged.replace(damaged.find("bucket_bytes"), 12, "bucket_byte");
  CHECK_THROWS_WITH(plan_from_json(damaged, "p.json"),
                    Catch::Contains("p.json: plan.schedule: unknown key 'bucket_byte'"));
}

TEST_CASE("what to compute again is none, blocks, all, or labels") {
  CHECK(parse_remat("none", "--remat").empty());
  CHECK(parse_remat("a.b,c", "--remat") == std::vector<std::string>{"a.b", "c"});
  for (const char* text : {"a,,b", "blocks,a", "all,none"})
    CHECK_THROWS_WITH(parse_remat(text, "--remat"), Catch::StartsWith("--remat: found '" + std::string(text) + "'"));
}

TEST_CASE("stages have about equal FLOPs, and leaves are where they are used first") {
  Pcg pcg = build_model({"bert-tiny", {{"batch", 8}}});
  std::vector<int> stages = balanced_stages(pcg, {1, 1});
  std::vector<double> work(2, 0);
  int last = 0;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& n = pcg.nodes()[i];
    if (!n.is_compute()) continue;
    CHECK(stages[i] >= last);
    last = stages[i];
    work[static_cast<std::size_t>(last)] += flops(*n.table, full_ranges(*n.table));
    for (ValueRef v : n.inputs)
      if (pcg[v.node].is_leaf()) CHECK(stages[v.node.index()] <= stages[i]);
  }
  CHECK(last == 1);
  CHECK(std::abs(work[0] - work[1]) <= 0.4 * (work[0] + work[1]));
}

TEST_CASE("a stage whose devices are twice as fast gets twice the operators") {
  // Of nine equal products, 9 * 2 / 3 on the first stage, but for an activation or the loss about the cut.
  Pcg pcg = build_model({"mlp", {{"batch", 8}, {"layers", 9}, {"hidden", 64}}});
  std::vector<int> stages = balanced_stages(pcg, {2, 1}), products(2, 0);
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (pcg.nodes()[i].op->name() == "matmul") ++products[static_cast<std::size_t>(stages[i])];
  CHECK(products == std::vector<int>{6, 3});
  CHECK(stage_speeds({4, 2, 1, 1}, 4, 2, 2) == std::vector<double>{2, 1, 2, 1});  // groups of devices 0, 1 and 2, 3
}

TEST_CASE("a stage sends its last gradient on before it sums those of its weights") {
  SearchOptions options;
  options.stages = 2, options.micro_batches = 2;
  Plan plan = pipeline("mlp-tiny", 4, options).value();
  Program program = lower(plan.pcg, plan.mappings, uniform_topology(4)).value();
  std::size_t last_sent = 0, first_sum = program.tasks.size();
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& t = program.tasks[i];
    if (t.kind != TaskKind::communicate || t.phase != Phase::backward || t.device < DeviceId(2)) continue;
    CollectiveKind kind = program.communications[static_cast<std::size_t>(t.op)].kind;
    if (kind == CollectiveKind::send) last_sent = i;
    if (kind == CollectiveKind::all_reduce) first_sum = std::min(first_sum, i);
  }
  CHECK(last_sent > 0);
  CHECK(last_sent < first_sum);
}

TEST_CASE("the strategy makes the stages and micro-batches that are asked for, and tries those that are not") {
  SearchOptions options;
  options.stages = 2, options.micro_batches = 4;
  options.schedule.order = PipelineOrder::one_f_one_b;
  Plan plan = pipeline("bert-tiny", 4, options).value();
  CHECK(plan.schedule.order == PipelineOrder::one_f_one_b);
  CHECK(plan.search.candidates == 1);
  CHECK(plan.search.stopped_because == "2 stages of 2 devices, 4 micro-batches, 1f1b");
  // Of 24 samples on 4 devices: 2 stages of 2 (2, 4 micro-batches of 12 samples each; 8 do not divide), 4 of 1 (4, 8).
  SearchOptions even;
  even.parts = 1;  // stages are alike then
  CHECK(pipeline("bert-tiny", 4, even).value().search.candidates == 4);
}

TEST_CASE("stages and micro-batches that do not divide are refused with what they are and should be") {
  SearchOptions options;
  options.stages = 3;
  CHECK(pipeline("mlp-tiny", 4, options).error().message ==
        "strategy pipeline: 3 stages, expected a divisor of the 4 devices");
  options.stages = 12;
  CHECK(pipeline("mlp-tiny", 12, options).error().message ==
        "strategy pipeline: 12 stages of 1 parts for a model of 4 operators");
  options.stages = 2, options.micro_batches = 5;
  CHECK(pipeline("mlp-tiny", 2, options).error().message.find("5 micro-batches do not divide dimension 0") !=
        std::string::npos);
}

TEST_CASE("1F1B takes less memory than GPipe, in about the same time, on a pipeline of bert-tiny") {
  SearchOptions options;
  options.stages = 2, options.micro_batches = 6;
  Plan gpipe = pipeline("bert-tiny", 2, options).value();
  options.schedule.order = PipelineOrder::one_f_one_b;
  Plan turns = pipeline("bert-tiny", 2, options).value();
  CHECK(turns.prediction.peak_memory < gpipe.prediction.peak_memory);
  // The bubbles are equal; in turn, a stage waits for what is sent more often.
  CHECK(static_cast<double>(turns.prediction.iteration.count) ==
        Approx(static_cast<double>(gpipe.prediction.iteration.count)).epsilon(0.1));
}

TEST_CASE("a search in pieces takes a schedule that names what not every piece has") {
  ModelSpec spec{"bert-tiny", {{"batch", 12}}};
  SimulatedCostModel cost(uniform_topology(2));
  SearchOptions options;
  options.schedule.overlap = 1;  // as the plan to compare with has
  Plan plain = find_plan(spec, build_model(spec), cost, options).value();
  options.schedule.remat = {"encoder.0"};
  Plan again = find_plan(spec, build_model(spec), cost, options).value();
  CHECK(again.schedule.remat == options.schedule.remat);
  CHECK(again.prediction.peak_memory < plain.prediction.peak_memory);
}
