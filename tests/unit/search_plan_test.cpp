#include <algorithm>
#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "core/graph/text.h"
#include "core/models/models.h"
#include "core/search/evaluator.h"
#include "core/search/explain.h"
#include "core/search/lowered_programs.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"
#include "tests/support/checksum.h"
#include "tests/support/paths.h"

using namespace unity;

namespace {

Result<Plan> find(const ModelSpec& spec, const CostModel& cost, SearchOptions options = {}) {
  return find_plan(spec, build_model(spec), cost, options);
}

// How often a rule was applied, by this degree.
auto applied(const Plan& plan, std::string_view rule, int degree = 0) {
  return std::count_if(plan.derivation.begin(), plan.derivation.end(),
                       [&](const DerivationStep& s) { return s.rule == rule && s.degree == degree; });
}

}  // namespace

TEST_CASE("the joint search is faster than every baseline on bert-tiny, without a look at them") {
  for (int devices : {1, 2, 4}) {
    ModelSpec spec{"bert-tiny", {{"batch", 12}}};
    SimulatedCostModel cost(load_topology("summit", {1, devices}));
    SearchOptions options;
    options.seeds = false;
    Plan unity = find(spec, cost, options).value();
    INFO(devices << " devices");
    if (devices == 1) CHECK(applied(unity, "fuse_attention") == 2);
    if (devices == 2) {  // where there are no stages, one after the other
      options.parallelism = {"data", "model", "reduction", "head", "spatial"};
      const Plan divided = find(spec, cost, options).value();
      CHECK(applied(divided, "shard_matmul_n", 2) + applied(divided, "shard_matmul_k", 2) > 0);
      options.parallelism.clear();
    }
    options.seeds = true;
    for (const char* baseline : {"data-parallel", "expert"}) {
      options.strategy = baseline;
      auto plan = find(spec, cost, options);
      if (plan.ok()) CHECK(unity.prediction.iteration < plan->prediction.iteration);
    }
  }
}

TEST_CASE("the joint search finds one rule for all layers where it is fastest: Megatron's on six GPUs") {
  ModelSpec spec{"mlp", {{"batch", 1536}}};
  SimulatedCostModel cost(load_topology("summit", {1, 6}));
  SearchOptions options;
  options.seeds = false;
  Plan unity = find(spec, cost, options).value();
  for (const char* rule : {"shard_matmul_n", "shard_relu_d1", "shard_matmul_k"}) CHECK(applied(unity, rule, 6) == 8);
  options.seeds = true;
  for (const char* baseline : {"data-parallel", "expert"}) {
    options.strategy = baseline;
    CHECK(unity.prediction.iteration < find(spec, cost, options).value().prediction.iteration);
  }
}

TEST_CASE("Megatron's strategy for a pair of products and for attention is found as a sequence of basic rules") {
  // Unity, Fig. 10: one sample, so that nothing can be split by batch, and no template of columns, then rows.
  for (int devices : {2, 6}) {
    SimulatedCostModel cost(load_topology("summit", {1, devices}));
    INFO(devices << " devices");
    auto both = [&](const char* model) {
      SearchOptions options;
      options.seeds = options.templates = false;
      ModelSpec spec{std::string(UNITY_SOURCE_DIR) + "/experiments/models/" + model, {{"batch", 1}}};
      Plan found = find(spec, cost, options).value();
      options = {};
      options.strategy = "expert";
      Plan expert = find(spec, cost, options).value();
      CHECK(found.prediction.iteration < expert.prediction.iteration);
      CHECK(found.prediction.communicated.count * 2 == expert.prediction.communicated.count);
      return found;
    };
    Plan pair = both("mlp-pair.yaml");
    for (const char* rule : {"shard_matmul_n", "shard_gelu_d2", "shard_matmul_k"})
      CHECK(applied(pair, rule, devices) == 1);
    Plan attention = both("attention-block.yaml");
    CHECK(applied(attention, "shard_matmul_n", devices) == 3);
    CHECK(applied(attention, "shard_matmul_k", devices) == 1);
    CHECK(applied(attention, "shard_attention_b1", devices) + applied(attention, "shard_batch_matmul_b1", devices) > 0);
  }
}

TEST_CASE("products of wide features move to where their tables are, rather than these to them") {
  // Unity, Fig. 16b: XDL with tables of 1,024 columns before a layer of 32.
  ModelSpec spec{"xdl", {{"batch", 4096}, {"width", 1024}, {"hidden", 32}}};
  SimulatedCostModel cost(load_topology("summit", {1, 4}));
  SearchOptions options;
  Plan joint = find(spec, cost, options).value();
  const auto& steps = joint.derivation;
  CHECK(std::any_of(steps.begin(), steps.end(),
                    [](const DerivationStep& s) { return s.rule == "matmul_of_concat_in_four"; }));
  CHECK(print(joint.pcg).find("concat(") == std::string::npos);
  options.algebra = false;
  Plan layouts = find(spec, cost, options).value();
  CHECK(joint.prediction.iteration * 2 < layouts.prediction.iteration);
}

TEST_CASE("so do products of any number of features") {
  for (int tables : {5, 8}) {
    ModelSpec spec{"xdl", {{"batch", 4096}, {"tables", tables}, {"width", 1024}, {"hidden", 32}}};
    SimulatedCostModel cost(load_topology("summit", {1, 4}));
    SearchOptions options;
    options.budget = 1500;
    Plan joint = find(spec, cost, options).value();
    INFO(tables << " tables");
    CHECK(applied(joint, fmt::format("matmul_of_concat_in_{}", tables == 5 ? "five" : "eight")) == 1);
    CHECK(print(joint.pcg).find("concat(") == std::string::npos);
    options.algebra = false;
    CHECK(joint.prediction.iteration * 2 < find(spec, cost, options).value().prediction.iteration);
  }
}

TEST_CASE("where gradients gain by being joined, the search finds what gains most without a look at baselines") {
  ModelSpec spec{"bert-large", {{"layers", 1}, {"batch", 768}}};
  SimulatedCostModel cost(load_topology("summit", {32, 0}));
  SearchOptions options;
  options.seeds = false;
  Plan unseeded = find(spec, cost, options).value();
  options.strategy = "data-parallel";
  options.schedule.bucket = Bytes{25'000'000};
  Plan joined = find(spec, cost, options).value();
  options.schedule.bucket = {};
  CHECK(joined.prediction.iteration < find(spec, cost, options).value().prediction.iteration);
  CHECK(unseeded.prediction.iteration <= joined.prediction.iteration);
}

TEST_CASE("a search without seeds finds what rewriting before sharding finds") {
  ModelSpec spec{"xdl", {{"batch", 2048}}};
  SimulatedCostModel cost(load_topology("summit", {1, 2}));
  SearchOptions options;
  options.seeds = false;
  Plan unseeded = find(spec, cost, options).value();
  options.strategy = "algebra-then-parallel";
  CHECK(unseeded.prediction.iteration <= find(spec, cost, options).value().prediction.iteration);
}

TEST_CASE("a plan that is lowered once scores under all schedules as lowered for each") {
  for (int devices : {2, 6}) {
    ModelSpec spec{"mlp", {{"batch", 24}, {"layers", 3}, {"hidden", 96}}};
    SimulatedCostModel cost(load_topology("summit", {1, devices}));
    Plan plan = find(spec, cost, {.strategy = "data-parallel"}).value();
    Evaluator evaluator(cost, {true, {}, {}}, {});
    for (Offload offload : {Offload::none, Offload::activations_and_optimizer}) {
      Schedule schedule;
      schedule.offload = offload;
      Candidate whole = evaluator.evaluate(plan.pcg, plan.mappings, schedule).value();
      std::set<std::int64_t> times;
      for (std::int64_t bytes : {40'000, 0, 1, 10'000'000, 40'000}) {
        schedule.bucket = Bytes{bytes};
        Candidate anew =
            Evaluator(cost, {true, {}, {}}, {}, {.cache = false}).evaluate(plan.pcg, plan.mappings, schedule).value();
        Candidate kept = evaluator.evaluate_bucket(whole, schedule.bucket).value();
        CHECK(kept.score.iteration == anew.score.iteration);
        CHECK(kept.score.communicated == anew.score.communicated);
        CHECK(kept.score.peak_memory == anew.score.peak_memory);
        CHECK(kept.tasks == anew.tasks);
        CHECK(kept.schedule == schedule);
        times.insert(kept.score.iteration.count);
      }
      CHECK(times.size() > 1);
    }
  }
}

TEST_CASE("a pipeline that is lowered once scores in every order and overlap as lowered for each") {
  SimulatedCostModel cost(load_topology("summit", {1, 4}));
  SearchOptions options{.strategy = "pipeline"};
  options.micro_batches = 4;
  Plan plan = find(ModelSpec{"mlp", {{"batch", 32}, {"layers", 4}, {"hidden", 96}}}, cost, options).value();
  Evaluator evaluator(cost, {true, {}, {}}, {});
  std::set<std::int64_t> times;
  for (int round : {0, 1})
    for (PipelineOrder order : {PipelineOrder::gpipe, PipelineOrder::one_f_one_b, PipelineOrder::zero_bubble})
      for (int overlap : {0, 1, 2}) {
        Schedule schedule{.order = order, .overlap = overlap};
        INFO(in_words(schedule) << ", round " << round);
        Candidate anew =
            Evaluator(cost, {true, {}, {}}, {}, {.cache = false}).evaluate(plan.pcg, plan.mappings, schedule).value();
        Candidate kept = evaluator.evaluate(plan.pcg, plan.mappings, schedule).value();
        CHECK(kept.score.iteration == anew.score.iteration);
        CHECK(kept.score.peak_memory == anew.score.peak_memory);
        CHECK(kept.memory.persistent == anew.memory.persistent);
        CHECK(kept.tasks == anew.tasks);
        times.insert(kept.score.iteration.count);
      }
  CHECK(times.size() > 2);
}

TEST_CASE("plans are lowered once, whatever their schedules, as long as they are among the last") {
  Pcg pcg = build_model({"mlp", {{"batch", 32}, {"layers", 2}, {"hidden", 8}}});
  Topology topology = load_topology("summit", {1, 2});
  std::vector<MachineMapping> mappings = natural_mappings(pcg);
  LoweredPrograms programs;
  int lowered = 0;
  auto get = [&](Hash plan) {
    return programs
        .get(plan,
             [&] {
               ++lowered;
               return lower(pcg, mappings, topology, {.scheduled = false});
             })
        .value();
  };
  const Program whole = lower(pcg, mappings, topology, {}).value();
  for (int i = 0; i < 3; ++i) {
    Program program = get(1);
    REQUIRE(schedule_tasks(program, {}, topology).ok());
    CHECK(program_hash(program) == program_hash(whole));
  }
  CHECK(lowered == 1);
  for (Hash other = 2; other < 200; ++other) get(other);
  CHECK(lowered == 199);
  get(199);
  CHECK(lowered == 199);
  get(1);  // let go of by now
  CHECK(lowered == 200);
  CHECK(!programs.get(1000, [] { return Result<Program>(fail("no")); }).ok());
  get(1000);  // an error is not kept
  CHECK(lowered == 201);

  auto hash = [&](const std::vector<MachineMapping>& m, const LowerOptions& options) {
    return lowered_hash(pcg, m, options);
  };
  std::vector<MachineMapping> moved = mappings;
  moved.back().start = 1;
  CHECK(hash(mappings, {}) == hash(mappings, {.schedule = {.overlap = 1}}));
  CHECK(hash(mappings, {}) != hash(moved, {}));
  CHECK(hash(mappings, {}) != hash(mappings, {.micro_batches = 2}));
  std::set<Hash> schedules;
  for (const Schedule& s : {Schedule{}, Schedule{.order = PipelineOrder::one_f_one_b}, Schedule{.overlap = 1},
                            Schedule{.bucket = Bytes{1}}, Schedule{.remat = {"blocks"}},
                            Schedule{.offload = Offload::optimizer}, Schedule{.weights = WeightVersions::delayed}})
    schedules.insert(schedule_hash(s));
  CHECK(schedules.size() == 7);
}

TEST_CASE("no plan would be faster with its operators mapped plainly") {
  for (const ModelSpec& spec : {ModelSpec{"candle-uno", {{"batch", 1536}}}, ModelSpec{"bert-tiny", {{"batch", 12}}}}) {
    SimulatedCostModel cost(load_topology("summit", {1, 6}));
    Plan plan = find(spec, cost).value();
    Evaluator evaluator(cost, {true, plan.optimizer, plan.schedule}, {});
    auto plain = evaluator.evaluate(plan.pcg, natural_mappings(plan.pcg), plan.schedule);
    INFO(spec.name);
    if (plain.ok()) CHECK(plan.prediction.iteration <= plain->score.iteration);
  }
}

TEST_CASE("the same search gives the same plan, with any number of threads") {
  ModelSpec spec{"bert-tiny", {{"batch", 12}}};
  SimulatedCostModel cost(load_topology("summit", {1, 4}));
  SearchOptions options;
  options.jobs = 1;
  Plan a = find(spec, cost, options).value();
  for (int jobs : {2, 3}) {
    options.jobs = jobs;
    Plan b = find(spec, cost, options).value();
    CHECK(canonical_hash(a.pcg) == canonical_hash(b.pcg));
    CHECK(a.mappings == b.mappings);
    CHECK(a.search.candidates == b.search.candidates);
  }
}

TEST_CASE("a graph that is not series-parallel is searched in parts, and split better than along the batch") {
  ModelSpec spec{"nasnet-a-mobile",
                 {{"batch", 4}, {"image", 40}, {"classes", 5}, {"filters", 4}, {"cells", 1}, {"stem", 4}}};
  SimulatedCostModel cost(load_topology("summit", {1, 2}));
  SearchOptions options;
  Plan found = find(spec, cost, options).value();
  CHECK(found.search.log.parts_solved > 3);
  CHECK(check_well_formed(found.pcg).ok());
  options.strategy = "data-parallel";
  Plan data = find(spec, cost, options).value();
  CHECK(found.prediction.iteration < data.prediction.iteration);
}

TEST_CASE("a budget counts candidates and is named as the reason to stop") {
  ModelSpec spec{"mlp-mnist", {{"batch", 64}}};
  SimulatedCostModel cost(load_topology("summit", {1, 4}));
  SearchOptions options;
  options.budget = 3;
  Plan plan = find(spec, cost, options).value();
  // Data parallelism is scored beside the budget, and the second search has one of its own: the graph that is fastest
  // on one device, and half of the first one's.
  CHECK(plan.search.candidates <= 5 + 1 + 1);
  options.algebra = false;
  CHECK(find(spec, cost, options).value().search.candidates <= 5);
  options.budget = 0;
  CHECK_THROWS_WITH(find(spec, cost, options), Catch::Contains("budget is 0"));
}

TEST_CASE("a batch that does not divide is refused with the number that would") {
  ModelSpec spec{"mlp-mnist", {{"batch", 64}}};
  SimulatedCostModel cost(load_topology("summit", {1, 3}));
  SearchOptions options;
  options.strategy = "data-parallel";
  auto plan = find(spec, cost, options);
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().message ==
        "batch of 64 samples is not divisible by 3 devices; choose --global-batch as a multiple of 3");
}

TEST_CASE("a plan that does not fit in memory is refused with what it needs and what there is") {
  ModelSpec spec{"mlp-mnist", {{"batch", 64}}};
  SimulatedCostModel cost(load_topology("summit", {1, 2}));
  SearchOptions options;
  options.memory_limit = {1'000'000};
  auto plan = find(spec, cost, options);
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().message.find("which is limited to 1 MB") != std::string::npos);
}

TEST_CASE("with less memory than the fastest plan needs, a slower plan that fits is found") {
  ModelSpec spec{"bert-tiny", {{"batch", 12}}};
  SimulatedCostModel cost(load_topology("summit", {1, 4}));
  SearchOptions options;
  options.overlap = false;  // with it, the walk from pipeline to pipeline may end at a slightly faster one
  Plan fastest = find(spec, cost, options).value();
  options.memory_limit = fastest.prediction.peak_memory - Bytes{1};
  Plan smaller = find(spec, cost, options).value();
  CHECK(smaller.prediction.peak_memory <= options.memory_limit);
  // The search may find another way there, which it has not come upon without the limit.
  CHECK(smaller.prediction.iteration.seconds() >= 0.99 * fastest.prediction.iteration.seconds());
}

TEST_CASE("only the allowed kinds of parallelism are used") {
  ModelSpec spec{"mlp-mnist", {{"batch", 64}}};
  SimulatedCostModel cost(load_topology("summit", {1, 2}));
  SearchOptions options;
  options.parallelism = {"data"};
  Plan plan = find(spec, cost, options).value();
  for (const DerivationStep& s : plan.derivation) CHECK(s.rule.find("matmul_n") == std::string::npos);
  options.parallelism = {"modle"};
  CHECK_THROWS_WITH(find(spec, cost, options), Catch::Contains("did you mean 'model'?"));
}

TEST_CASE("each kind of parallelism is allowed by itself; all of them together are no restriction") {
  const std::vector<std::string> all = {"data", "model", "reduction", "head", "spatial", "pipeline"};
  const std::vector<std::string> without_pipelines(all.begin(), all.end() - 1);
  SearchOptions options;
  options.budget = 300;
  auto with = [&](const ModelSpec& spec, int devices, const std::vector<std::string>& kinds) {
    options.parallelism = kinds;
    return find(spec, SimulatedCostModel(load_topology("summit", {1, devices})), options).value();
  };
  // One whose plan is a pipeline, one whose tables are on devices of their own.
  for (const ModelSpec& spec :
       {ModelSpec{"mlp", {{"batch", 1536}, {"layers", 6}, {"hidden", 2048}}}, ModelSpec{"dlrm", {{"batch", 6144}}}}) {
    INFO(spec.name);
    Plan free = with(spec, 6, {}), listed = with(spec, 6, all);
    CHECK(canonical_hash(listed.pcg) == canonical_hash(free.pcg));
    CHECK(listed.mappings == free.mappings);
    CHECK(listed.schedule == free.schedule);
    CHECK(listed.search.candidates == free.search.candidates);
    CHECK(listed.prediction.iteration == free.prediction.iteration);
  }
  const ModelSpec mlp{"mlp", {{"batch", 1536}, {"layers", 6}, {"hidden", 2048}}};
  Picoseconds no_pipeline = with(mlp, 6, without_pipelines).prediction.iteration;
  Plan pipeline = with(mlp, 6, {"pipeline"});
  CHECK(pipeline.prediction.iteration < no_pipeline);
  for (std::size_t i = 0; i < pipeline.pcg.size(); ++i)
    CHECK(task_count(node_grid(pipeline.pcg, NodeId(static_cast<std::int64_t>(i)))) == 1);
  CHECK(with(mlp, 6, {"model", "reduction"}).prediction.iteration <
        with(mlp, 6, {"spatial", "head"}).prediction.iteration);
  options.algebra = false;  // pipelines of the model as it is
  CHECK(with(mlp, 6, {}).prediction.iteration < no_pipeline);
}

TEST_CASE("options that a strategy has no use for are refused") {
  ModelSpec spec{"mlp-mnist", {{"batch", 64}}};
  SimulatedCostModel cost(load_topology("summit", {1, 2}));
  SearchOptions options;
  options.stages = 2;
  CHECK_THROWS_WITH(find(spec, cost, options), "strategy unity does not take --stages; these do: pipeline");
  CHECK(not_taken(options) == std::vector<std::string>{"stages"});
  leave_out(options, {"stages"});
  CHECK(not_taken(options).empty());
  options.strategy = "data-parallel";
  options.parallelism = {"data"};
  CHECK_THROWS_WITH(find(spec, cost, options), Catch::Contains("data-parallel does not take --parallelism"));
  options.strategy = "pipeline";
  CHECK(find(spec, cost, options).error().message == "strategy pipeline: --parallelism does not allow pipelines");
}

TEST_CASE("an unknown strategy is refused with the nearest name") {
  ModelSpec spec{"mlp-mnist", {{"batch", 64}}};
  SimulatedCostModel cost(load_topology("summit", {1, 2}));
  SearchOptions options;
  options.strategy = "data-paralel";
  CHECK_THROWS_WITH(find(spec, cost, options), Catch::Contains("did you mean 'data-parallel'?"));
}

TEST_CASE("a plan file gives the plan back") {
  ModelSpec spec{"bert-tiny", {{"batch", 12}}};
  SimulatedCostModel cost(load_topology("summit", {1, 4}));
  SearchOptions options;
  options.strategy = "expert";
  Plan plan = find(spec, cost, options).value();
  Plan again = plan_from_json(plan_to_json(plan), "plan.json");
  CHECK(canonical_hash(again.pcg) == canonical_hash(plan.pcg));
  CHECK(again.mappings == plan.mappings);
  CHECK(plan_to_json(again) == plan_to_json(plan));
  CHECK(check_plan(again, cost.topology()).ok());
  CHECK(check_plan(again, load_topology("dgx-a100", {1, 4})).error().message.find("another machine") !=
        std::string::npos);
  std::string text = plan_to_json(plan);
  for (std::size_t length : {std::size_t{0}, text.size() / 3, text.size() / 2, text.size() - 3})
    CHECK_THROWS_AS(plan_from_json(text.substr(0, length), "cut.json"), InputError);
  text = files::without_checksum(text);
  std::size_t at = text.find("\"devices\": 4");
  REQUIRE(at != std::string::npos);
  for (const char* number : {"4.5", "1e300", "4294967300", "-99999999999999999999"}) {
    std::string other = std::string(text).replace(at, 12, fmt::format("\"devices\": {}", number));
    CHECK_THROWS_WITH(plan_from_json(other, "p.json"), Catch::Contains("p.json: plan.machine.devices: found"));
  }
}

TEST_CASE("a plan is of one global batch: that of its model and of its graph") {
  ModelSpec spec{"mlp-tiny", {{"batch", 12}}};
  SearchOptions options;
  options.strategy = "data-parallel";
  const std::string text = files::without_checksum(
      plan_to_json(find(spec, SimulatedCostModel(load_topology("summit", {1, 2})), options).value()));
  auto with = [&](std::vector<std::pair<std::string, std::string>> changes) {
    std::string other = text;
    for (const auto& [from, to] : changes) {
      REQUIRE(other.find(from) != std::string::npos);
      other.replace(other.find(from), from.size(), to);
    }
    return other;
  };
  CHECK(plan_from_json(text, "p.json").global_batch == 12);
  CHECK_THROWS_WITH(plan_from_json(with({{"\"global_batch\": 12", "\"global_batch\": 6"}}), "p.json"),
                    Catch::Contains("p.json: plan.global_batch: found 6, expected 12 as plan.model.options.batch"));
  CHECK_THROWS_WITH(
      plan_from_json(with({{"\"global_batch\": 12", "\"global_batch\": 6"}, {"\"batch\": 12", "\"batch\": 6"}}),
                     "p.json"),
      Catch::Contains("p.json: plan.global_batch: found 6, expected 12, dimension 0 of input '"));
  // Where the options do not say, the graph does.
  const std::pair<std::string, std::string> no_option = {"\"batch\": 12", ""};
  CHECK(plan_from_json(with({no_option}), "p.json").global_batch == 12);
  CHECK(plan_from_json(with({no_option}), "p.json").model.options.at("batch") == 12);
  CHECK_THROWS_WITH(plan_from_json(with({no_option, {"\"global_batch\": 12", "\"global_batch\": 6"}}), "p.json"),
                    Catch::Contains("p.json: plan.global_batch: found 6, expected 12, dimension 0 of input '"));
  for (const char* batch : {"0", "-12"})
    CHECK_THROWS_WITH(
        plan_from_json(with({no_option, {"\"global_batch\": 12", fmt::format("\"global_batch\": {}", batch)}}),
                       "p.json"),
        fmt::format("p.json: plan.global_batch: found {}, expected at least 1", batch));
}

TEST_CASE("mappings of inputs and of parallelization operators, which place nothing, have to be some") {
  const Topology topology = load_topology("summit", {1, 2});
  SearchOptions options;
  options.strategy = "data-parallel";
  const Plan plan = find({"mlp-tiny", {{"batch", 12}}}, SimulatedCostModel(topology), options).value();
  for (const char* op : {"input", "partition"}) {
    const auto node = std::find_if(plan.pcg.nodes().begin(), plan.pcg.nodes().end(),
                                   [&](const Node& n) { return n.op->name() == op; });
    REQUIRE(node != plan.pcg.nodes().end());
    const auto at = static_cast<std::size_t>(node - plan.pcg.nodes().begin());
    auto refusal = [&](const MachineMapping& mapping) {
      Plan other = plan;
      other.mappings[at] = mapping;
      const Result<void> checked = check_plan(other, topology);
      return checked.ok() ? std::string() : checked.error().message;
    };
    const std::string of = fmt::format("mapping of {} ({}): ", node->name, op);
    CHECK(refusal({2, {}, {}}) == of + "start: found 2, expected 0 to 1");
    CHECK(refusal({-1, {}, {}}) == of + "start: found -1, expected 0 to 1");
    CHECK(refusal({0, {5}, {}}) == of + "strides: found 5, expected -2 to 2");
    CHECK(refusal({0, {1}, {0, 2}}) == of + "places: found 2, expected 0 to 1");
    CHECK(refusal({1, {1}, {}}).empty());  // as a search leaves it
  }
}

TEST_CASE("the expert plan of a transformer reads as Megatron's") {
  ModelSpec spec{"bert-tiny", {{"batch", 12}}};
  SimulatedCostModel cost(load_topology("summit", {1, 6}));
  SearchOptions options;
  options.strategy = "expert";
  std::string text = explain_plan(find(spec, cost, options).value());
  CHECK(text.find("2 x encoder.*\n    attention: query.matmul, query.add_bias, ") != std::string::npos);
  CHECK(text.find("scores, scale, softmax, context: 3-way data, 2-way by head") != std::string::npos);
  CHECK(text.find("ffn: in.matmul, in.add_bias, gelu: 3-way data, 2-way by output; out.matmul: 3-way data, 2-way by "
                  "reduction") != std::string::npos);
}

TEST_CASE("an explained plan says which devices compute what, unless all compute everything") {
  SimulatedCostModel cost(load_topology("summit", {1, 4}));
  auto plan_of = [&](const char* strategy) {
    SearchOptions options;
    options.strategy = strategy;
    options.stages = strategy == std::string("pipeline") ? 2 : 0;
    return find(ModelSpec{"mlp", {{"batch", 32}, {"layers", 4}, {"hidden", 96}}}, cost, options).value();
  };
  const Plan staged = plan_of("pipeline");
  const std::vector<PlaceExplanation> places = explain_places(staged);
  REQUIRE(places.size() == 2);
  CHECK(places[0].devices == std::vector<int>{0, 1});
  CHECK(places[0].first == "layer.0.matmul");
  CHECK(places[1].devices == std::vector<int>{2, 3});
  CHECK(places[1].last == "loss");
  CHECK(std::cmp_equal(places[0].operators + places[1].operators,
                       std::count_if(staged.pcg.nodes().begin(), staged.pcg.nodes().end(),
                                     [](const Node& n) { return n.is_compute(); })));
  CHECK(explain_plan(staged).find("\nDevices\n  devices 0 to 1: ") != std::string::npos);
  CHECK(explain_plan(plan_of("data-parallel")).find("\nDevices\n") == std::string::npos);
}

TEST_CASE("the expert plan of a language model splits the words of its table, of the logits and of the loss") {
  ModelSpec spec{"gpt2-small", {{"batch", 6}, {"layers", 1}}};
  SimulatedCostModel cost(load_topology("summit", {1, 6}));
  SearchOptions options;
  options.strategy = "expert";
  Plan plan = find(spec, cost, options).value();
  std::map<std::string, std::string> found;  // what operators read, by operator
  for (const Node& n : plan.pcg.nodes())
    for (ValueRef v : n.inputs) found[n.op->name()] = to_string(plan.pcg.shape(v));
  CHECK_FALSE(found.contains("cross_entropy"));
  CHECK(found.at("embedding") == "f32[50257/2, 768] copies 3");
  CHECK(found.at("exp") == "f32[6/3, 1024, 50257/2]");
}
