// The strategies that the joint search is compared with, and the search with parts of it left out.
#include <algorithm>
#include <map>

#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/rewrite/library.h"
#include "core/rewrite/normalize.h"
#include "core/search/column_then_row.h"
#include "core/search/data_parallel.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"

namespace unity {
namespace {

const ModelSpec kBert{"bert-tiny", {{"batch", 12}}}, kSmall{"mlp", {{"batch", 1200}, {"layers", 2}, {"hidden", 64}}};

Plan planned(const ModelSpec& spec, int devices, SearchOptions options) {
  SimulatedCostModel cost(load_topology("summit", {1, devices}));
  return find_plan(spec, build_model(spec), cost, options).value();
}
Plan planned(const ModelSpec& spec, int devices, const std::string& strategy) {
  SearchOptions options;
  options.strategy = strategy;
  return planned(spec, devices, options);
}

// Those that rewrite computations; how operators are split is in the library, too.
std::vector<std::string> library_steps(const Plan& plan) {
  std::vector<std::string> steps;
  for (const DerivationStep& step : plan.derivation)
    for (const Rule& rule : rule_library())
      if (rule.algebraic() && rule.name == step.rule) steps.push_back(step.rule);
  return steps;
}

TEST_CASE("columns, then rows of all pairs of matmuls at once is what one after the other gives") {
  auto spec = GENERATE(ModelSpec{"bert-large", {{"layers", 3}, {"batch", 8}, {"seq-len", 32}}},
                       ModelSpec{"gpt2-small", {{"layers", 2}, {"batch", 8}}}, ModelSpec{"mlp", {{"batch", 64}}},
                       ModelSpec{"candle-uno", {{"batch", 64}}});
  auto data = GENERATE(1, 2, 4);
  auto tensor = GENERATE(2, 3, 4, 8);
  CAPTURE(spec.name, data, tensor);
  State state{normalize(build_model(spec)), {}, {}};
  if (data > 1) state = shard_batch(state, data).value();
  auto split = column_then_row(state, tensor, 64, true);
  REQUIRE(split.ok());
  State replayed = state;
  for (std::size_t m = state.moves.size(); m < split->moves.size(); ++m)
    replayed = apply_move(replayed, split->moves[m]).value();
  CHECK(split->moves.size() > state.moves.size());
  CHECK(canonical_hash(split->pcg) == canonical_hash(replayed.pcg));
  CHECK(split->steps.size() == replayed.steps.size());
}

TEST_CASE("stored in parts, weights move as many bytes as their gradients do, and take less memory") {
  ModelSpec spec{"mlp", {{"batch", 12}, {"layers", 2}, {"hidden", 64}}};
  Plan whole = planned(spec, 4, "data-parallel"), parts = planned(spec, 4, "deepspeed-zero");
  int weights = 0;
  for (std::size_t i = 0; i < parts.pcg.size(); ++i) {
    NodeId id(static_cast<std::int64_t>(i));
    if (parts.pcg[id].op->name() != "weight") continue;
    ++weights;
    INFO(parts.pcg[id].name);
    CHECK(storage_shape(parts.pcg, id).parts() == 4);
    CHECK(storage_shape(parts.pcg, id).copies == 1);
  }
  CHECK(weights > 0);
  // A ring's all-reduce of b bytes is a reduce-scatter and an all-gather of b bytes.
  CHECK(parts.prediction.communicated == whole.prediction.communicated);
  CHECK(parts.prediction.peak_memory < whole.prediction.peak_memory);
}

TEST_CASE("the grid holds data parallelism and every pipeline of one chain") {
  Plan grid = planned(kBert, 4, "megatron-grid");
  CHECK(grid.prediction.iteration <= planned(kBert, 4, "data-parallel").prediction.iteration);
  for (int stages : {2, 4}) {
    SearchOptions even;
    even.strategy = "pipeline", even.stages = stages;
    CHECK(grid.prediction.iteration <= planned(kBert, 4, even).prediction.iteration);
  }
}

TEST_CASE("Monte Carlo starts from data parallelism and repeats with its seed") {
  SearchOptions options;
  options.strategy = "flexflow";
  options.budget = 60;
  Plan a = planned(kBert, 4, options), b = planned(kBert, 4, options);
  CHECK(a.prediction.iteration <= planned(kBert, 4, "data-parallel").prediction.iteration);
  CHECK(canonical_hash(a.pcg) == canonical_hash(b.pcg));
  CHECK(library_steps(a).empty());
  CHECK(a.search.candidates <= 60);
  options.budget = 1;
  CHECK(planned(kBert, 4, options).search.candidates == 1);
  // Where four devices can not share the batch, from one device.
  Plan alone = planned({"mlp", {{"batch", 3}, {"layers", 2}, {"hidden", 64}}}, 4, options);
  CHECK(alone.derivation.empty());
}

TEST_CASE("one search after the other rewrites first, and without regard to what can be split") {
  Plan plan = planned(kBert, 2, "algebra-then-parallel");
  std::vector<std::string> steps = library_steps(plan);
  REQUIRE_FALSE(steps.empty());
  CHECK(plan.derivation[0].rule.find("shard_") == std::string::npos);
  SearchOptions options;
  options.algebra = false;
  CHECK(library_steps(planned(kBert, 2, options)).empty());
}

TEST_CASE("each level of the search can be left out, and what is remembered decides nothing") {
  ModelSpec deep{"mlp", {{"batch", 12}, {"layers", 24}, {"hidden", 64}}};
  SearchOptions full;
  Plan plan = planned(deep, 2, full);
  SearchOptions forgetful = full;
  forgetful.cache = false;
  forgetful.budget = 1 << 20;
  Plan anew = planned(deep, 2, forgetful);
  CHECK(anew.prediction.iteration == plan.prediction.iteration);
  CHECK(anew.search.candidates > plan.search.candidates);
  SearchOptions placed = full;
  placed.mapping_dp = false;
  placed.parallelism = {"data", "model", "reduction", "head", "spatial"};  // stages have devices of their own
  Plan natural = planned(deep, 2, placed);
  for (const MachineMapping& m : natural.mappings) CHECK(m.start == 0);
  // The first candidate is data parallelism; by itself, the search starts with the model as it is, on one device.
  SearchOptions once = full;
  once.budget = 1;
  CHECK(planned(kSmall, 2, once).prediction.iteration <= planned(kSmall, 2, "data-parallel").prediction.iteration);
  once.seeds = once.algebra = false;
  CHECK(planned(kSmall, 2, once).search.candidates == 1);
  CHECK(planned(kSmall, 2, once).prediction.communicated == Bytes{0});
  SearchOptions whole = full;
  whole.splitting = false;
  whole.budget = 40;
  CHECK(planned(deep, 2, whole).search.stopped_because == "budget of 40 candidates");
}

TEST_CASE("the expert's plan of a model with tables has these on devices, and all else split by batch") {
  const int tables = GENERATE(3, 4, 8);
  ModelSpec spec{"xdl", {{"batch", 96}, {"tables", tables}, {"rows", 1000}, {"width", 16}, {"hidden", 32}}};
  SimulatedCostModel cost(load_topology("summit", {2, 4}));
  SearchOptions options;
  options.strategy = "expert";
  Plan plan = find_plan(spec, build_model(spec), cost, options).value();
  std::map<int, int> held;  // parts of tables, by device
  for (std::size_t i = 0; i < plan.pcg.size(); ++i) {
    NodeId id(static_cast<std::int64_t>(i));
    const Node& n = plan.pcg[id];
    if (!n.is_compute()) continue;
    TaskGrid grid = node_grid(plan.pcg, id);
    if (n.op->name() != "embedding_bag") {
      CHECK(task_count(grid) == 4);
      continue;
    }
    NodeId table = n.inputs[1].node;
    while (plan.pcg[table].is_parallelization()) table = plan.pcg[table].inputs[0].node;
    std::vector<DeviceId> devices = plan.mappings[i].devices(grid);
    CHECK(plan.mappings[table.index()].devices(node_grid(plan.pcg, table)) == devices);
    for (DeviceId d : devices) ++held[d.value];
  }
  auto [least, most] =
      std::minmax_element(held.begin(), held.end(), [](auto a, auto b) { return a.second < b.second; });
  CHECK(held.size() >= std::min<std::size_t>(4, static_cast<std::size_t>(tables)));
  CHECK(most->second - least->second <= 1);
  CHECK(plan.search.stopped_because.find("tables") != std::string::npos);
}

TEST_CASE("joined gradients are the search's to choose, where the options do not say") {
  ModelSpec spec{"resnext-50", {{"batch", 96}, {"blocks", 1}}};
  SimulatedCostModel cost(load_topology("summit", {4, 24}));
  Pcg model = build_model(spec);
  SearchOptions options;
  options.budget = 60;
  Plan joined = find_plan(spec, model, cost, options).value();
  options.buckets = false;
  Plan apart = find_plan(spec, model, cost, options).value();
  CHECK(joined.schedule.bucket.count > 0);
  CHECK(apart.schedule.bucket.count == 0);
  CHECK(joined.prediction.iteration < apart.prediction.iteration);
  auto program = lower(joined.pcg, joined.mappings, cost.topology(), {true, options.optimizer, joined.schedule});
  CHECK(cost.score(program.value()).iteration == joined.prediction.iteration);
  options.buckets = true;
  options.schedule.bucket = {3'000'000};
  CHECK(find_plan(spec, model, cost, options)->schedule.bucket == options.schedule.bucket);
}

}  // namespace
}  // namespace unity
