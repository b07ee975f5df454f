// Plans that need less memory at the price of time.
#include <algorithm>

#include <catch2/catch.hpp>

#include "core/graph/text.h"
#include "core/models/models.h"
#include "core/rewrite/normalize.h"
#include "core/search/data_parallel.h"
#include "core/search/memory_tradeoffs.h"
#include "core/search/pareto.h"
#include "core/search/search.h"
#include "core/search/strategy.h"
#include "simulator/cost_model.h"
#include "tests/support/rewrite_check.h"

namespace unity {
namespace {

const ModelSpec kBert{"bert-tiny", {{"batch", 12}}};

std::vector<Plan> front(SearchOptions options) {
  SimulatedCostModel cost(load_topology("laptop", {1, 2}));
  options.pareto = true;
  options.optimizer = {.name = "adam"};
  return find_plans(kBert, build_model(kBert), cost, options).value();
}

TEST_CASE("replicated weights are stored in parts, and what is computed stays") {
  // Two replicas of w store three rows each; the replicas of b, which is cut already, have two elements of a third.
  Pcg pcg = parse_pcg(
      "pcg g { x = input([8, 6]) w = weight([6, 12]) b = weight([12])\n"
      "y = matmul(partition(0, 2, x), replicate(2, w))\n"
      "z = add(partition(1, 3, y), replicate(2, partition(0, 3, b))) return combine(0, 2, combine(1, 3, z)) }");
  Pcg stored = with_stored_parts(pcg).value();
  test::check_same_function(pcg, stored);
  for (std::size_t i = 0; i < stored.size(); ++i) {
    if (stored.nodes()[i].op->name() != "weight") continue;
    ParallelShape shape = storage_shape(stored, NodeId(static_cast<std::int64_t>(i)));
    CHECK(shape.parts() == (stored.nodes()[i].name == "w" ? 2 : 6));
    CHECK(shape.copies == 1);
  }
}

TEST_CASE("weights without replicas, or with too few elements, are not stored in parts") {
  CHECK_FALSE(with_stored_parts(parse_pcg("pcg g { x = input([8, 6]) w = weight([6, 5]) return matmul(x, w) }")).ok());
  CHECK_FALSE(with_stored_parts(parse_pcg("pcg g { x = input([4, 1]) w = weight([1, 1])\n"
                                          "return combine(0, 2, matmul(partition(0, 2, x), replicate(2, w))) }"))
                  .ok());
}

TEST_CASE("deepspeed-zero takes the fastest stage that fits, in the fewest micro-batches") {
  SimulatedCostModel cost(load_topology("laptop", {1, 2}));
  auto plan = [&](int stage, std::int64_t limit) {
    SearchOptions options;
    options.strategy = "deepspeed-zero";
    options.optimizer = {.name = "adam"};
    options.schedule.zero_stage = stage;
    options.memory_limit = {limit};
    return find_plan(kBert, build_model(kBert), cost, options);
  };
  const Plan first = plan(1, 0).value(), third = plan(3, 0).value();
  CHECK(third.prediction.communicated.count > first.prediction.communicated.count);
  REQUIRE(third.prediction.peak_memory < first.prediction.peak_memory);
  CHECK(first.prediction.iteration <= third.prediction.iteration);
  CHECK(plan(0, 0)->search.stopped_because == "stage 1 is the fastest that fits");
  const Plan tight = plan(0, third.prediction.peak_memory.count).value();
  CHECK(tight.schedule.zero_stage > 1);
  CHECK(tight.prediction.peak_memory <= third.prediction.peak_memory);
  const Plan tighter = plan(0, third.prediction.peak_memory.count - 1).value();
  CHECK(tighter.prediction.peak_memory < third.prediction.peak_memory);
  CHECK(tighter.search.stopped_because.find("micro-batches is the fastest that fits") != std::string::npos);
  CHECK(tighter.schedule.order == PipelineOrder::one_f_one_b);
}

TEST_CASE("a front holds the fastest plan, and of each memory only the fastest") {
  std::vector<Plan> plans = front({});
  REQUIRE(plans.size() >= 3);
  for (std::size_t i = 1; i < plans.size(); ++i) {
    CHECK(plans[i - 1].prediction.iteration < plans[i].prediction.iteration);
    CHECK(plans[i].prediction.peak_memory < plans[i - 1].prediction.peak_memory);
  }
  SimulatedCostModel cost(load_topology("laptop", {1, 2}));
  SearchOptions fastest;
  fastest.optimizer = {.name = "adam"};
  CHECK(find_plan(kBert, build_model(kBert), cost, fastest)->prediction.iteration == plans[0].prediction.iteration);
}

TEST_CASE("what does not fit beats nothing that does") {
  struct Item {
    std::int64_t time, memory;
    bool fits;
    bool operator==(const Item&) const = default;
  };
  // The fullest device of the first has room for more than that of the others.
  std::vector<Item> items = {{4, 25, true}, {1, 20, false}, {2, 30, true},
                             {3, 30, true}, {3, 22, false}, {5, 10, false}};
  keep_pareto_front(
      items, items.size(), [](const Item& i) { return i.time; }, [](const Item& i) { return i.memory; },
      [](const Item& i) { return i.fits; });
  CHECK(items == std::vector<Item>{{1, 20, false}, {2, 30, true}, {4, 25, true}, {5, 10, false}});
}

TEST_CASE("the front of what is fused is one, of plans that fit") {
  SimulatedCostModel cost(load_topology("dgx-a100", {1, 1}));
  SearchOptions options;
  options.strategy = "data-parallel", options.pareto = true, options.schedule.fuse = Fuse::chains;
  options.optimizer = {.name = "adam"};
  auto fused = [&] { return find_plans(kBert, build_model(kBert), cost, options).value(); };
  const std::vector<Plan> all = fused();
  REQUIRE(all.size() >= 3);
  for (std::size_t i = 1; i < all.size(); ++i) {
    CHECK(all[i - 1].prediction.iteration < all[i].prediction.iteration);
    CHECK(all[i].prediction.peak_memory < all[i - 1].prediction.peak_memory);
  }
  // One of them that does not fit once it is fused is no reason to have none.
  options.memory_limit = {all[0].prediction.peak_memory.count - 1};
  const std::vector<Plan> small = fused();
  for (const Plan& plan : small) CHECK(plan.prediction.peak_memory <= options.memory_limit);
  options.memory_limit = Bytes{1000};
  CHECK_FALSE(find_plans(kBert, build_model(kBert), cost, options).ok());
}

TEST_CASE("where nothing fits, the batch is cut into more and more micro-batches") {
  SimulatedCostModel cost(load_topology("summit", {1, 1}));
  const ModelSpec spec{"mlp-mnist", {{"batch", 3072}}};
  SearchOptions options;
  options.budget = 60;
  options.pareto = true;
  auto least = [&](int micro_batches) {
    options.micro_batches = micro_batches;
    return find_plans(spec, build_model(spec), cost, options)->back().prediction.peak_memory;
  };
  const Bytes needed = least(32);
  REQUIRE(least(8) > needed);
  options.micro_batches = 0, options.pareto = false, options.memory_limit = needed;
  const auto plan = find_plan(spec, build_model(spec), cost, options);
  REQUIRE(plan.ok());
  CHECK(plan->prediction.peak_memory <= needed);
}

TEST_CASE("on one device deepspeed-zero stores no parts") {
  SimulatedCostModel cost(load_topology("laptop", {1, 1}));
  SearchOptions options;
  options.strategy = "deepspeed-zero";
  const Plan plan = find_plan(kBert, build_model(kBert), cost, options).value();
  for (const DerivationStep& step : plan.derivation) CHECK(step.rule != "gather_stored_parts");
}

TEST_CASE("what the front promises is what its plans cost") {
  SimulatedCostModel cost(load_topology("laptop", {1, 2}));
  for (const Plan& plan : front({})) {
    Program program = lower(plan.pcg, plan.mappings, cost.topology(), {true, plan.optimizer, plan.schedule}).value();
    Score score = cost.score(program);
    CHECK(score.iteration == plan.prediction.iteration);
    CHECK(score.peak() == plan.prediction.peak_memory);
  }
}

TEST_CASE("a model that fits under no fast plan gets a slower one that fits") {
  std::vector<Plan> plans = front({});
  SimulatedCostModel cost(load_topology("laptop", {1, 2}));
  SearchOptions options;
  options.optimizer = {.name = "adam"};
  options.memory_limit = plans.back().prediction.peak_memory;
  Plan plan = find_plan(kBert, build_model(kBert), cost, options).value();
  CHECK(plan.prediction.peak_memory <= options.memory_limit);
  CHECK(plan.prediction.iteration > plans[0].prediction.iteration);
  CHECK((!plan.schedule.remat.empty() || plan.schedule.offload != Offload::none));
}

TEST_CASE("of a plan of very many tasks few variants are scored, and about the fastest that fits is among them") {
  SimulatedCostModel cost(load_topology("laptop", {1, 2}));
  const Pcg model = normalize(build_model(kBert));
  SearchOptions options;
  options.optimizer = {.name = "adam"};
  struct Found {
    Picoseconds fastest{std::numeric_limits<std::int64_t>::max()};  // that fits
    Bytes smallest{std::numeric_limits<std::int64_t>::max()};
    std::int64_t scored = 0;
  };
  auto vary = [&](Bytes limit, bool large) {
    Evaluator evaluator(cost, {true, options.optimizer, options.schedule}, limit);
    State whole = shard_batch({model, {}, {}}, 2).value();
    Outcome plan{evaluator.evaluate(whole.pcg, options.schedule).value(), {}, {}, {}};
    if (large) plan.candidate.tasks = 1'000'000;
    Found found;
    for (const Outcome& o : memory_tradeoffs(plan, {model, evaluator, options, 2}, Tradeoffs::all)) {
      found.smallest = std::min(found.smallest, o.candidate.score.peak());
      if (evaluator.fits(o.candidate.score)) found.fastest = std::min(found.fastest, o.candidate.score.iteration);
    }
    found.scored = evaluator.scored();
    return found;
  };
  const Bytes all = vary({}, false).smallest;
  for (double room : {1.0, 1.3, 2.0}) {
    CAPTURE(room);
    const Bytes limit{static_cast<std::int64_t>(room * static_cast<double>(all.count))};
    Found slow = vary(limit, false), quick = vary(limit, true);
    CHECK(quick.scored < slow.scored);
    CHECK(static_cast<double>(quick.fastest.count) <= 1.05 * static_cast<double>(slow.fastest.count));
  }
  // What cannot fit is not tried, but for the one of each kind that saves most.
  Found none = vary({all.count / 2}, true);
  CHECK(none.fastest.count == std::numeric_limits<std::int64_t>::max());
  CHECK(none.scored < 30);
}

TEST_CASE("where nothing fits, the smallest memory that would do is said") {
  SimulatedCostModel cost(load_topology("laptop", {1, 2}));
  SearchOptions options;
  options.memory_limit = Bytes{1000};
  auto plan = find_plan(kBert, build_model(kBert), cost, options);
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().message.find("the smallest plan found needs") != std::string::npos);
  CHECK(plan.error().message.find("which is limited to 1 kB") != std::string::npos);
}

TEST_CASE("where nothing fits, simple plans that are slower and larger are made smaller, too") {
  SimulatedCostModel cost(load_topology("laptop", {1, 2}));
  const ModelSpec spec{"mlp-tiny", {{"batch", 60}}};
  SearchOptions options;
  options.strategy = "expert", options.pareto = true;
  Bytes least{std::numeric_limits<std::int64_t>::max()};
  auto expert = find_plans(spec, build_model(spec), cost, options);
  REQUIRE(expert.ok());
  for (const Plan& plan : *expert) least = std::min(least, plan.prediction.peak_memory);
  options.strategy = "unity", options.pareto = false, options.memory_limit = least;
  auto plan = find_plan(spec, build_model(spec), cost, options);
  REQUIRE(plan.ok());
  CHECK(plan->prediction.peak_memory <= least);
}

TEST_CASE("the front of the joint search has what its second search finds") {
  SimulatedCostModel cost(load_topology("summit", {1, 4}));
  const ModelSpec spec{"mlp-tiny", {}};
  SearchOptions options;
  options.pareto = true;
  auto all = find_plans(spec, build_model(spec), cost, options);
  options.strategy = "algebra-then-parallel";
  auto second = find_plans(spec, build_model(spec), cost, options);
  REQUIRE((all.ok() && second.ok()));
  for (std::size_t i = 1; i < all->size(); ++i) {
    CHECK((*all)[i].prediction.iteration > (*all)[i - 1].prediction.iteration);
    CHECK((*all)[i].prediction.peak_memory < (*all)[i - 1].prediction.peak_memory);
  }
  for (const Plan& plan : *second) {
    CAPTURE(plan.prediction.iteration.count, plan.prediction.peak_memory.count);
    CHECK(std::any_of(all->begin(), all->end(), [&](const Plan& other) {
      return other.prediction.iteration <= plan.prediction.iteration &&
             other.prediction.peak_memory <= plan.prediction.peak_memory;
    }));
  }
}

TEST_CASE("the memory that is said to do does, by every strategy") {
  const std::string strategy = GENERATE("unity", "algebra-then-parallel", "exhaustive", "expert", "data-parallel",
                                        "deepspeed-zero", "megatron-grid", "pipeline");
  CAPTURE(strategy);
  SimulatedCostModel cost(load_topology("summit", {1, 2}));
  const ModelSpec spec{"mlp-tiny", {}};
  SearchOptions options;
  options.strategy = strategy;
  if (strategy == "exhaustive") options.budget = 50000;
  options.memory_limit = Bytes{1000};
  auto none = find_plan(spec, build_model(spec), cost, options);
  REQUIRE_FALSE(none.ok());
  CAPTURE(none.error().message);
  CHECK(none.error().message.starts_with(fmt::format("strategy {}: the ", strategy)));
  const std::size_t at = none.error().message.find(" needs ");
  REQUIRE(at != std::string::npos);
  const std::string said = none.error().message.substr(at + 7, none.error().message.find(" on ", at) - at - 7);
  options.memory_limit = parse_bytes(said).value();
  auto plan = find_plan(spec, build_model(spec), cost, options);
  REQUIRE(plan.ok());
  CHECK(plan->prediction.peak_memory <= options.memory_limit);
}

TEST_CASE("a front holds what fits of a baseline that does not") {
  SimulatedCostModel cost(load_topology("laptop", {1, 2}));
  SearchOptions options;
  options.optimizer = {.name = "adam"};
  options.strategy = "data-parallel", options.pareto = true;
  const std::vector<Plan> all = find_plans(kBert, build_model(kBert), cost, options).value();
  REQUIRE(all.size() > 1);
  options.memory_limit = all.back().prediction.peak_memory;
  const std::vector<Plan> fitting = find_plans(kBert, build_model(kBert), cost, options).value();
  REQUIRE_FALSE(fitting.empty());
  for (const Plan& plan : fitting) CHECK(plan.prediction.peak_memory <= options.memory_limit);
  options.pareto = false;
  CHECK_FALSE(find_plans(kBert, build_model(kBert), cost, options).ok());
}

TEST_CASE("weights that a plan stores in parts already are varied by the later stages of ZeRO, too") {
  const Pcg model = build_model(kBert);
  SimulatedCostModel cost(load_topology("summit", {1, 4}));
  SearchOptions options;
  options.pareto = true, options.offload = false, options.remat = false;
  Evaluator evaluator(cost, {true, options.optimizer, options.schedule}, {});
  const State whole = shard_batch({model, {}, {}}, 4).value();
  auto least = [&](const Pcg& pcg) {
    Outcome plan{evaluator.evaluate(pcg, options.schedule).value(), {}, {}, {}};
    return memory_tradeoffs(plan, {model, evaluator, options, 4}, Tradeoffs::all).back().candidate;
  };
  const Candidate of_stored = least(with_stored_parts(whole.pcg).value()), of_whole = least(whole.pcg);
  CHECK(of_stored.schedule.zero_stage == 3);
  CHECK(of_stored.score.peak() == of_whole.score.peak());
}

TEST_CASE("a schedule that the options fix stays") {
  SearchOptions options;
  options.schedule.remat = {"blocks"};
  options.schedule.offload = Offload::optimizer;
  for (const Plan& plan : front(options)) {
    CHECK(plan.schedule.remat == std::vector<std::string>{"blocks"});
    CHECK(plan.schedule.offload == Offload::optimizer);
  }
}

TEST_CASE("nothing is computed again where the options say so, in pipelines neither") {
  auto again = [](const Plan& plan) { return !plan.schedule.remat.empty(); };
  std::vector<Plan> usual = front({.offload = false}), without = front({.offload = false, .remat = false});
  CHECK(std::any_of(usual.begin(), usual.end(), again));
  CHECK(std::none_of(without.begin(), without.end(), again));
  // A pipeline that fits with the least memory only by computing again.
  const ModelSpec spec{"bert-tiny", {{"layers", 4}, {"batch", 32}}};
  SimulatedCostModel cost(load_topology("laptop", {1, 4}));
  SearchOptions options;
  options.strategy = "pipeline";
  options.memory_limit = Bytes{1000};
  auto smallest = [&](bool remat) {
    options.remat = remat;
    const std::string said = find_plan(spec, build_model(spec), cost, options).error().message;
    const std::size_t at = said.find(" needs ");
    REQUIRE(at != std::string::npos);
    return parse_bytes(said.substr(at + 7, said.find(" on ", at) - at - 7))->count;
  };
  CHECK(smallest(true) <= smallest(false));
}

TEST_CASE("nothing is offloaded where the options say so, though less memory would do") {
  auto offloads = [](const Plan& plan) { return plan.schedule.offload != Offload::none; };
  std::vector<Plan> usual = front({}), without = front({.offload = false});
  CHECK(std::any_of(usual.begin(), usual.end(), offloads));
  CHECK(std::none_of(without.begin(), without.end(), offloads));
  CHECK(without.back().prediction.peak_memory > usual.back().prediction.peak_memory);
}

TEST_CASE("where a plan does not fit, the device that lacks the most memory is named, not the fullest") {
  SimulatedCostModel cost(load_topology("mixed-gpus", {}));
  Evaluator evaluator(cost, {true, {}, {}}, {});
  Score score;
  for (std::size_t d = 0; d < 16; ++d)
    score.peak_memory.push_back(Bytes{(d < 8 ? 20 : d == 9 ? 18 : 17) * 1'000'000'000LL});
  CHECK_THAT(does_not_fit("unity", score, evaluator, "the smallest plan").message,
             Catch::Contains("needs 18 GB on node1.gpu1, which has 16 GB"));
}

}  // namespace
}  // namespace unity
