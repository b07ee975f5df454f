// Pipelines whose stages have widths and plans of their own: the dynamic program, the submeshes, the strategies.
#include <algorithm>

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/plan/repeat.h"
#include "core/rewrite/library.h"
#include "core/search/gradient_buckets.h"
#include "core/search/intra_stage.h"
#include "core/search/pipeline_stages.h"
#include "core/search/search.h"
#include "core/search/stage_dp.h"
#include "core/search/stage_estimate.h"
#include "core/search/stage_layers.h"
#include "core/search/stage_moves.h"
#include "core/search/stage_proposals.h"
#include "core/search/stage_search.h"
#include "core/search/staged_plan.h"
#include "core/search/submesh.h"
#include "simulator/analysis/steady_state.h"
#include "simulator/cost_model.h"
#include "simulator/simulate.h"
#include "tests/support/checksum.h"
#include "tests/support/seed.h"

namespace unity {
namespace {

Submesh anywhere(int width, int devices) {
  Submesh mesh{width, std::vector<bool>(static_cast<std::size_t>(devices), false)};
  for (int d = 0; d + width <= devices; ++d) mesh.starts[static_cast<std::size_t>(d)] = true;
  return mesh;
}

// Layers of these times on one device, half of that on two, and so on; no memory, free handover.
StageProblem ideal(std::vector<std::int64_t> times, int devices, int micro_batches, const std::vector<int>& widths) {
  StageProblem p;
  p.layers = static_cast<int>(times.size()), p.devices = devices, p.micro_batches = micro_batches;
  for (int w : widths) p.submeshes.push_back(anywhere(w, devices));
  p.memory.assign(widths.size(), 0);
  p.options = [times, widths](int first, int last, int submesh) {
    std::int64_t sum = 0;
    for (int i = first; i < last; ++i) sum += times[static_cast<std::size_t>(i)];
    return std::vector<StageOption>{{sum / widths[static_cast<std::size_t>(submesh)], 0, 0}};
  };
  p.handover = [](int, int) { return std::int64_t{0}; };
  return p;
}

std::int64_t fastest(const StageProblem& p) {
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  for (const ChosenStages& c : choose_stages(p)) best = std::min(best, c.time);
  return best;
}

// Over all ways to cut the layers from `first` on and to place them so that the last stage has the last device.
std::int64_t by_enumeration(const StageProblem& p, int first, int device, std::int64_t sum,
                            const StageOption& slowest) {
  if (first == p.layers && device == p.devices) return sum + (p.micro_batches - 1) * slowest.time + slowest.unawaited;
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  for (int last = first + 1; last <= p.layers; ++last)
    for (std::size_t s = 0; s < p.submeshes.size(); ++s) {
      const Submesh& mesh = p.submeshes[s];
      if (device + mesh.width > p.devices || !mesh.starts[static_cast<std::size_t>(device)]) continue;
      StageOption stage = p.options(first, last, static_cast<int>(s))[0];
      std::int64_t handed = first > 0 ? p.handover(first, device) : 0;
      best = std::min(best, by_enumeration(p, last, device + mesh.width, sum + stage.time - stage.unawaited + handed,
                                           stage.time > slowest.time ? stage : slowest));
    }
  return best;
}

TEST_CASE("three equal layers on two devices are cut once, unless one stage may have both devices") {
  // One stage: 12 + 2 x 12 = 36. Two: 4 + 8 + 2 x 8 = 28. One on both devices: 6 + 2 x 6 = 18.
  std::vector<ChosenStages> chosen = choose_stages(ideal({4, 4, 4}, 2, 3, {1}));
  REQUIRE(chosen.size() == 2);
  CHECK(chosen[0].time == 36);
  CHECK(chosen[1].time == 28);
  CHECK(chosen[1].stages.size() == 2);
  CHECK(fastest(ideal({4, 4, 4}, 2, 3, {1, 2})) == 18);
}

TEST_CASE("a stage of twice the work gets twice the devices") {
  // 2 | 4 on one and two devices: 2 + 2 + 9 x 2 = 22; all other cuts and widths have a slower stage.
  StageProblem p = ideal({2, 4}, 3, 10, {1, 2});
  std::vector<ChosenStages> chosen = choose_stages(p);
  CHECK(chosen.back().time == 22);
  CHECK(chosen.back().stages == std::vector<ChosenStage>{{0, 1, 0, 0, 0}, {1, 2, 1, 1, 0}});
}

TEST_CASE("handing over counts once, and may make a pipeline not worth its while") {
  // Two layers of 4 on two devices, 3 micro-batches: cut 4 + 4 + 2 x 4 = 16 and the handover; whole 8 + 2 x 8 = 24.
  StageProblem p = ideal({4, 4}, 2, 3, {1});
  p.handover = [](int cut, int device) { return std::int64_t{cut == 1 && device == 1 ? 7 : 1000}; };
  CHECK(fastest(p) == 23);
  p.handover = [](int, int) { return std::int64_t{9}; };
  CHECK(fastest(p) == 24);
}

TEST_CASE("gradients of weights behind what a stage sends hold up no other stage") {
  // Two layers of 4 on two devices, 3 micro-batches, a fourth of each unawaited: 3 + 3 + 2 x 4 + 1 = 15 in place of 16.
  StageProblem p = ideal({4, 4}, 2, 3, {1});
  p.options = [](int first, int last, int) {
    return std::vector<StageOption>{{4 * (last - first), 0, 0, last - first}};
  };
  CHECK(choose_stages(p).back().time == 15);
  CHECK(choose_stages(p).front().time == 24);  // of one stage, it is no gain: 6 + 2 x 8 + 2
}

TEST_CASE("estimates: stages of branches work side by side, and gradients of weights fill what stages wait") {
  SimulatedCostModel cost(load_topology("summit", {1, {}}));
  Evaluator evaluator(cost, {true, {}, {}}, {});
  for (std::string model : {"mlp", "candle-uno"}) {
    Pcg serial = build_model({model, {}});
    StrategyInput input{serial, evaluator, {}, 6};
    IntraPlans plans(serial, input);
    plans.prepare({1, 4});
    StageEstimates estimates(input, plans);
    const std::size_t count = plans.operators().size();
    StagedPlan plan{.micro_batches = 4, .plans = std::vector<IntraPlan>(count)};
    // Of CANDLE-Uno, five towers of eight layers and what joins them.
    std::vector<std::size_t> ends = {16, 32, 48, 64, 80, count};
    for (int s = 0; s < 6; ++s) {
      auto at = static_cast<std::size_t>(s);
      plan.ends.push_back(model == "mlp" ? count * (at + 1) / 6 : ends[at]), plan.devices.push_back({s, 1});
    }
    StageEstimates::Estimate estimate = estimates.of(plan);
    CHECK((estimate.beside > 0) == (model == "candle-uno"));
    plan.overlap = 1;
    CHECK(estimates.of(plan).time < estimate.time);
    StagedPlan whole{
        .micro_batches = 4, .ends = {count}, .devices = {{0, 4}}, .plans = std::vector<IntraPlan>(count, {4, 1, {}})};
    estimate = estimates.of(whole);
    CHECK(estimate.beside == 0);
    whole.overlap = 1;
    CHECK(estimates.of(whole).time == estimate.time);  // one stage waits for no other
  }
}

TEST_CASE(
    "of proposals two are taken of each number of stages, and two with one plan in each stage, the fastest first") {
  auto proposal = [](std::int64_t time, std::size_t stages, bool plain, int micro_batches) {
    StagedPlan plan{.micro_batches = micro_batches};
    for (std::size_t s = 0; s < stages; ++s) plan.ends.push_back(2 * (s + 1));
    plan.plans.assign(2 * stages, {2, 1, {}});
    if (!plain) plan.plans[0] = {1, 2, {}};
    return Proposal{time, plan};
  };
  std::vector<Proposal> proposals = {proposal(9, 2, true, 1), proposal(3, 2, true, 2),  proposal(4, 2, true, 4),
                                     proposal(5, 2, true, 8), proposal(6, 2, false, 8), proposal(1, 3, true, 8)};
  std::vector<StagedPlan> plans = {proposals[2].plan};
  add_fastest(plans, proposals, 4);
  REQUIRE(plans.size() == 4);
  CHECK(std::is_sorted(proposals.begin(), proposals.end(),
                       [](const Proposal& a, const Proposal& b) { return a.time < b.time; }));
  CHECK(plans[1] == proposal(1, 3, true, 8).plan);
  CHECK(plans[2] == proposal(3, 2, true, 2).plan);
  CHECK(plans[3] == proposal(6, 2, false, 8).plan);  // the third and fourth of two stages with one plan are too many
  plans.clear();
  add_fastest(plans, proposals, 2);
  CHECK(plans.size() == 2);
}

TEST_CASE("pipelines that are estimated to be slower are left out, plans of one stage are not") {
  SimulatedCostModel cost(load_topology("summit", {1, {}}));
  Evaluator evaluator(cost, {true, {}, {}}, {});
  Pcg serial = build_model({"mlp", {}});
  StrategyInput input{serial, evaluator, {}, 6};
  IntraPlans plans(serial, input);
  plans.prepare({1, 6});
  StageEstimates estimates(input, plans);
  const std::size_t count = plans.operators().size();
  auto two = [&](std::size_t cut) {
    return StagedPlan{
        .micro_batches = 2, .ends = {cut, count}, .devices = {{0, 1}, {1, 1}}, .plans = std::vector<IntraPlan>(count)};
  };
  // Of one operator and all others, and of halves.
  const StagedPlan uneven = two(1), even = two(count / 2);
  StagedPlan one{.ends = {count}, .devices = {{0, 1}}, .plans = std::vector<IntraPlan>(count)};
  const double ratio = static_cast<double>(estimates.of(uneven).time) / static_cast<double>(estimates.of(even).time);
  REQUIRE(ratio > 1.2);
  REQUIRE(estimates.of(one).time > estimates.of(even).time);
  std::vector<StagedPlan> all = {uneven, one, even};
  CHECK(drop_slower(all, estimates, 1.01 * ratio) == 0);
  CHECK(drop_slower(all, estimates, 0.99 * ratio) == 1);
  CHECK(all == std::vector<StagedPlan>{one, even});
  CHECK(drop_slower(all, estimates, 1) == 0);  // one stage takes longer, which is not asked
  CHECK(all.size() == 2);
}

TEST_CASE("a program that was scored before is known from what was scored, whatever came between") {
  SimulatedCostModel cost(load_topology("summit", {1, 2}));
  Pcg model = build_model({"mlp", {{"batch", 64}, {"layers", 2}, {"hidden", 64}}});
  for (bool cache : {true, false}) {
    Evaluator evaluator(cost, {true, {}, {}}, {}, {.cache = cache});
    const Schedule plain, joined{.bucket = kUsualBucket};
    const Candidate first = evaluator.evaluate(model, plain).value();
    CHECK(evaluator.is_first(first));
    CHECK(evaluator.is_first(evaluator.evaluate(model, joined).value()));
    CHECK_FALSE(evaluator.is_first(evaluator.evaluate(model, plain).value()));
    CHECK_FALSE(evaluator.is_first(first));
    std::vector<MachineMapping> elsewhere = first.mappings;
    for (MachineMapping& m : elsewhere) m.start = 1 - m.start;
    CHECK(evaluator.is_first(evaluator.evaluate(model, elsewhere, plain).value()));
  }
}

TEST_CASE("under 1F1B earlier stages hold more micro-batches") {
  // Each layer keeps 10 bytes of a micro-batch. All three in one stage need 30; one and two need 2 x 10 and 20; one
  // each 3 x 10, 2 x 10 and 10.
  StageProblem p = ideal({4, 4, 4}, 3, 8, {1});
  p.options = [](int first, int last, int) {
    return std::vector<StageOption>{{4 * (last - first), 0, 10 * (last - first)}};
  };
  p.memory.assign(p.submeshes.size(), 30);
  CHECK(choose_stages(p).empty());  // GPipe holds 8 micro-batches, at best of one layer
  p.all_in_flight = false;
  CHECK(choose_stages(p).size() == 3);
  p.memory.assign(p.submeshes.size(), 29);
  std::vector<ChosenStages> chosen = choose_stages(p);
  REQUIRE(chosen.size() == 1);
  CHECK(chosen[0].stages == std::vector<ChosenStage>{{0, 1, 1, 0, 0}, {1, 3, 2, 0, 0}});
  p.memory.assign(p.submeshes.size(), 19);
  CHECK(choose_stages(p).empty());
}

TEST_CASE("a stage may hold what its own devices have room for, not only what the smallest has") {
  StageProblem p = ideal({4, 4, 4, 4}, 2, 2, {1, 1});
  p.submeshes = {{1, {true, false}}, {1, {false, true}}};  // the first device, and the second
  p.options = [](int first, int last, int) {
    return std::vector<StageOption>{{4 * (last - first), 10 * (last - first), 0}};
  };
  p.memory = {30, 10};
  std::vector<ChosenStages> chosen = choose_stages(p);
  REQUIRE(chosen.size() == 1);
  CHECK(chosen[0].stages == std::vector<ChosenStage>{{0, 3, 0, 0, 0}, {3, 4, 1, 1, 0}});
  p.memory = {10, 10};
  CHECK(choose_stages(p).empty());
}

TEST_CASE("what does not fit is run another way that does") {
  StageProblem p = ideal({4}, 1, 2, {1});
  p.memory.assign(p.submeshes.size(), 5);
  p.options = [](int, int, int) { return std::vector<StageOption>{{4, 6, 0}, {7, 1, 2}}; };
  std::vector<ChosenStages> chosen = choose_stages(p);
  REQUIRE(chosen.size() == 1);
  CHECK(chosen[0].time == 14);  // 7 + 7
  CHECK(chosen[0].stages[0].option == 1);
}

TEST_CASE("the dynamic program finds what enumeration finds") {
  std::mt19937_64 random(test::seed_of_run());
  INFO("UNITY_TEST_SEED=" << test::seed_of_run());
  for (int i = 0; i < 200; ++i) {
    auto up_to = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)) + 1; };
    std::vector<std::int64_t> times(static_cast<std::size_t>(up_to(4)));
    for (std::int64_t& t : times) t = 6 * up_to(9);
    StageProblem p = ideal(times, up_to(4), up_to(8), {1, 2, 3});
    std::int64_t factor = up_to(3);
    p.handover = [factor](int cut, int device) { return factor * (cut + 2 * device); };
    if (up_to(2) == 1)
      p.options = [options = p.options](int first, int last, int submesh) {
        std::vector<StageOption> all = options(first, last, submesh);
        for (StageOption& o : all) o.unawaited = o.time / 3;
        return all;
      };
    std::int64_t all = std::numeric_limits<std::int64_t>::max();
    for (int d = 0; d < p.devices; ++d) all = std::min(all, by_enumeration(p, 0, d, 0, {}));
    CHECK(fastest(p) == all);
  }
}

TEST_CASE("stages have a divisor of a node's devices, or whole nodes") {
  // Summit: 1, 2, 3 or 6 of a node, in a socket or across its sockets, or both nodes.
  std::vector<Submesh> meshes = submeshes(load_topology("summit", {2, 12}), 12);
  std::vector<int> widths;
  for (const Submesh& m : meshes) widths.push_back(m.width);
  CHECK(widths == std::vector<int>{1, 2, 2, 3, 3, 3, 6, 12});
  for (const Submesh& m : meshes) {
    INFO(m.width);
    if (m.width == 6) CHECK((m.starts[0] && m.starts[6] && std::count(m.starts.begin(), m.starts.end(), true) == 2));
    if (m.width < 6) CHECK_FALSE((m.width > 1 && m.starts[5]));  // no stage has parts of two nodes
  }
}

TEST_CASE("micro-batches have the same samples whatever the degree") {
  // 8 samples in 2 micro-batches: 0-3 and 4-7, whole or in halves.
  AxisTable table;
  table.axes = {{"b", 8, AxisRole::parallel, Monoid::sum}};
  Sharding sharding{{2}, {2}, 1, 1};
  TaskGrid grid = task_grid(table, sharding);
  CHECK(task_ranges(table, sharding, grid, {0}, 0)[0] == Range{0, 2});
  CHECK(task_ranges(table, sharding, grid, {1}, 0)[0] == Range{2, 2});
  CHECK(task_ranges(table, sharding, grid, {0}, 1)[0] == Range{4, 2});
}

SearchOptions with(const std::string& strategy) {
  SearchOptions options;
  options.strategy = strategy;
  return options;
}

TEST_CASE("weights of a stage of data and tensor parallelism are where they are used") {
  Topology topology = load_topology("summit", {1, 4});
  SimulatedCostModel cost(topology);
  SearchOptions options;
  Evaluator evaluator(cost, {}, {});
  Pcg model = build_model({"mlp", {{"batch", 16}, {"layers", 4}, {"hidden", 64}}});
  StrategyInput input{model, evaluator, options, 4};
  IntraPlans plans(model, input);
  IntraPlan inside{2, 2, IntraPlan::Rest::few};
  REQUIRE(plans.sharded(inside));
  Pcg pcg = with_micro_batches(*plans.sharded(inside), 2).value();
  std::vector<int> stages(pcg.size(), 0);
  Program program = lower(pcg, map_stages(pcg, stages, {{0, 4}}).value(), topology).value();
  for (const Communication& c : program.communications) {
    INFO(c.name);
    CHECK_FALSE(c.name.ends_with("weight"));
  }
}

TEST_CASE("Alpa's stages tile the machine, rewrite nothing and repeat") {
  ModelSpec spec{"mlp", {{"batch", 96}, {"layers", 6}, {"hidden", 512}}};
  SimulatedCostModel cost(load_topology("summit", {1, 6}));
  SearchOptions one = with("alpa-like"), two = one;
  one.jobs = 1, two.jobs = 2;
  Plan a = find_plan(spec, build_model(spec), cost, one).value();
  Plan b = find_plan(spec, build_model(spec), cost, two).value();
  // All but how long the search took, which comes last.
  auto found = [](const Plan& plan) {
    std::string text = files::without_checksum(plan_to_json(plan));
    return text.substr(0, text.find("\n \"search\": {"));
  };
  CHECK(found(a).size() > 1000);
  CHECK(found(a) == found(b));
  CHECK(canonical_hash(a.pcg) == canonical_hash(b.pcg));
  CHECK(a.mappings == b.mappings);
  for (const DerivationStep& step : a.derivation)
    for (const Rule& rule : rule_library()) CHECK_FALSE((rule.algebraic() && rule.name == step.rule));
}

TEST_CASE(
    "with weights of one update before, a pipeline is searched for and predicted by what a step takes among others") {
  ModelSpec spec{"mlp", {{"batch", 1536}}};
  SimulatedCostModel cost(load_topology("summit", {1, 6}));
  SearchOptions options;
  options.strategy = "pipeline";
  options.schedule.order = PipelineOrder::one_f_one_b;
  Plan flush = find_plan(spec, build_model(spec), cost, options).value();
  options.schedule.weights = WeightVersions::delayed;
  Plan steady = find_plan(spec, build_model(spec), cost, options).value();
  CHECK(steady.prediction.iteration < flush.prediction.iteration);
  Program step = lower(steady.pcg, steady.mappings, cost.topology(), {true, steady.optimizer, steady.schedule}).value();
  Program program = repeat(step, kSteadyIterations, steady.schedule).value();
  SimulationResult result = simulate(program, cost.topology());
  CHECK(steady.prediction.iteration == steady_state(program, result.trace).iteration());
}

TEST_CASE("pipelines with stages of their own are faster than even ones") {
  ModelSpec spec{"mlp", {{"batch", 96}, {"layers", 8}, {"hidden", 1024}}};
  SimulatedCostModel cost(load_topology("summit", {1, 6}));
  Pcg model = build_model(spec);
  Plan own = find_plan(spec, model, cost, with("pipeline")).value();
  for (int stages : {2, 3, 6}) {
    SearchOptions even = with("pipeline");
    even.stages = stages;
    CHECK(own.prediction.iteration < find_plan(spec, model, cost, even).value().prediction.iteration);
  }
}

TEST_CASE("the best pipeline is also tried with its gradients joined, or on their own, where they were joined") {
  SimulatedCostModel cost(load_topology("summit", {2, 8}));
  Pcg serial = build_model({"bert-large", {{"layers", 2}, {"batch", 48}}});
  Evaluator evaluator(cost, {}, {}, {});
  SearchOptions options;
  options.schedule.bucket = kUsualBucket;
  Outcome found =
      search_stages({serial, evaluator, options, 8}, {.plans = 4, .several = true, .buckets = true}).value();
  CHECK(found.candidate.schedule.bucket.count == 0);
  Candidate joined = evaluator.evaluate_bucket(found.candidate, kUsualBucket).value();
  CHECK(found.candidate.score.iteration < joined.score.iteration);
}

TEST_CASE("a pipeline of two stages goes around its devices twice, in quarters of the model") {
  Pcg model = build_model({"mlp", {{"batch", 1536}}});
  SimulatedCostModel cost(load_topology("summit", {1, {}}));
  Evaluator evaluator(cost, {true, {}, {}}, {});
  StrategyInput input{model, evaluator, {}, 6};
  IntraPlans plans(model, input);
  const IntraPlan data{3, 1, {}}, columns{1, 3, {}};
  REQUIRE(plans.of_width(3).size() > 1);
  const std::size_t n = plans.operators().size();
  StagedPlan two{.micro_batches = 4, .ends = {n / 2, n}, .devices = {{0, 3}, {3, 3}}};
  two.plans.assign(n, data);
  std::fill(two.plans.begin() + static_cast<std::ptrdiff_t>(n / 2), two.plans.end(), columns);
  StagedPlan four = in_parts(plans, two, 2).value();
  CHECK(groups_of(four) == 2);
  CHECK(is_interleaved(four));
  CHECK_FALSE(is_interleaved(two));
  CHECK(four.devices == std::vector<Resources>{{0, 3}, {3, 3}, {0, 3}, {3, 3}});
  CHECK(four.order == PipelineOrder::interleaved);
  CHECK(to_string(four) ==
        "2 stages with 2 parts each (data 3; tensor 3; data 3; tensor 3), 4 micro-batches, interleaved");
  // All layers of this model are alike, so quarters have as many FLOPs each.
  for (std::size_t s = 0; s < 4; ++s) {
    std::size_t begin = s == 0 ? 0 : four.ends[s - 1];
    CHECK(plans.flops_of(begin, four.ends[s]) == Approx(plans.flops_of(0, n) / 4).epsilon(0.1));
    CHECK(four.plans[begin] == (s % 2 == 0 ? data : columns));
  }
  CHECK(goes_around(four));
  four.micro_batches = 3;  // not as many rounds of two
  CHECK_FALSE(goes_around(four));
  CHECK_FALSE(in_parts(plans, two, 1000));
  // Back to one part each, the same cut.
  CHECK(in_parts(plans, in_parts(plans, two, 3).value(), 1) == two);

  // With t for each quarter, forth and back, and nothing else: m micro-batches of two stages take 2 t (m + 1), in
  // quarters 2 t m + t; both update weights, which takes a fifth of t more.
  StageEstimates estimates(input, plans);
  std::fill(two.plans.begin(), two.plans.end(), data);
  double whole = static_cast<double>(estimates.of(two).time);
  double parts = static_cast<double>(estimates.of(in_parts(plans, two, 2).value()).time);
  CHECK(parts / whole == Approx(9.0 / 10).epsilon(0.025));
}

TEST_CASE("steps from a plan in parts keep its devices, and go around in whole rounds") {
  Pcg model = build_model({"mlp", {{"batch", 1536}}});
  SimulatedCostModel cost(load_topology("summit", {1, {}}));
  Evaluator evaluator(cost, {true, {}, {}}, {});
  StrategyInput input{model, evaluator, {}, 6};
  IntraPlans plans(model, input);
  const std::size_t n = plans.operators().size();
  StagedPlan two{.micro_batches = 4, .ends = {n / 2, n}, .devices = {{0, 3}, {3, 3}}};
  REQUIRE(plans.of_width(3).size() > 1);
  two.plans.assign(n, IntraPlan{3, 1, {}});
  std::vector<std::size_t> ends;
  for (std::size_t k = 1; k <= n; ++k) ends.push_back(k);
  const std::vector<int> micro_batches = {1, 2, 3, 4, 6, 8};
  auto steps_in = [&](const StagedPlan& plan, bool parts) {
    return neighbours(plans, plan, {ends, micro_batches, true, true, parts});
  };
  StagedPlan four = in_parts(plans, two, 2).value();
  std::vector<StagedPlan> from_two = steps_in(two, true), from_four = steps_in(four, true);
  CHECK(std::count(from_two.begin(), from_two.end(), four) == 1);
  std::vector<StagedPlan> closed = steps_in(two, false);
  CHECK(std::none_of(closed.begin(), closed.end(), is_interleaved));
  int cuts = 0, insides = 0, more = 0;
  for (const StagedPlan& p : from_four) {
    CHECK(is_interleaved(p));
    CHECK(goes_around(p));
    CHECK(p.order == PipelineOrder::interleaved);
    CHECK(std::vector(p.devices.begin(), p.devices.begin() + 2) == two.devices);
    for (std::size_t k = 0, s = 0; k < n; ++k) {
      while (k >= p.ends[s]) ++s;
      CHECK(p.plans[k].width() == 3);
    }
    more += p.ends.size() == 6, insides += p.plans != four.plans && p.ends == four.ends;
    cuts += p.ends.size() == 4 && p.ends != four.ends;
  }
  CHECK(more == 1);
  CHECK(cuts == 3 * 4);  // each of three cuts, by one or two operators either way
  CHECK(insides >= 2);
}

TEST_CASE("of pipelines that communicate inside their stages the fastest few take two micro-batches at once") {
  std::map<StagedPlan, std::int64_t> simulated;
  auto add = [&](std::int64_t time, IntraPlan first, int stages, int micro_batches = 4) {
    StagedPlan plan{.micro_batches = micro_batches};
    for (int s = 0; s < stages; ++s) {
      plan.ends.push_back(static_cast<std::size_t>(s) + 1);
      plan.devices.push_back({2 * s, 2});
    }
    plan.ends.back() = 20;
    plan.plans.assign(20, {2, 1, {}});
    plan.plans[0] = first;
    plan.overlap = 1;
    simulated.emplace(plan, time);
    return plan;
  };
  const IntraPlan columns{1, 2, {}}, chosen{2, 1, {}, 1}, data{2, 1, {}};
  CHECK_FALSE(communicates_inside(add(100, data, 2)));
  add(101, columns, 2, 1);  // has none
  add(102, columns, 1);     // no pipeline
  StagedPlan first = add(103, columns, 3);
  add(104, columns, 3, 8);  // slower than the one with as many stages
  add(110, chosen, 4);
  add(110, columns, 5);  // as long as another, and later
  add(116, columns, 6);  // too slow
  add(std::numeric_limits<std::int64_t>::max(), columns, 7);
  const std::vector<std::size_t> layer_ends;
  const std::vector<int> micro_batches;
  StageMoves free{layer_ends, micro_batches};
  std::vector<StagedPlan> found = two_at_once(simulated, 100, free);
  REQUIRE(found.size() == 2);
  CHECK(std::all_of(found.begin(), found.end(), [](const StagedPlan& p) { return p.overlap == 2; }));
  first.overlap = 2;
  CHECK(found[0] == first);
  CHECK(communicates_inside(found[1]));
  free.order = true;  // in the orders that are left open
  found = two_at_once(simulated, 100, free);
  REQUIRE(found.size() == 6);
  CHECK(found[0] == first);
  for (auto [at, order] : {std::pair(1, PipelineOrder::one_f_one_b), std::pair(2, PipelineOrder::zero_bubble)}) {
    first.order = order;
    CHECK(found[static_cast<std::size_t>(at)] == first);
  }
  free.order = false;
  for (int stages = 8; stages < 18; ++stages) add(97 + stages, columns, stages);
  CHECK(two_at_once(simulated, 100, free).size() == 6);
}

TEST_CASE("even stages of columns and rows are cut where each device has a part of its own") {
  Pcg model = build_model({"mlp", {{"batch", 1536}}});
  SimulatedCostModel cost(load_topology("summit", {2, {}}));
  Evaluator evaluator(cost, {true, {}, {}}, {});
  SearchOptions options;
  StrategyInput input{model, evaluator, options, 12};
  IntraPlans plans(model, input);
  std::map<std::string, double> seconds;
  for (const StagedPlan& plan : tensor_pipelines(plans, 12, 8, {})) {
    CHECK(plan.overlap == 2);
    CHECK(plan.order == PipelineOrder::zero_bubble);
    CHECK(plan.micro_batches == 8);
    REQUIRE(plan.ends.back() == plans.operators().size());
    const IntraPlan& inside = plan.plans[0];
    CHECK(inside.tensor > 1);
    if (plan.ends.size() != 2 || inside != IntraPlan{1, 6, IntraPlan::Rest::copies}) continue;
    auto made = [&](std::size_t cut) { return plans.model(inside)[plans.operators(inside)[cut - 1]].outputs[0]; };
    CHECK(made(plan.ends[0]).copies == 1);
    CHECK(made(plan.ends[0]).dims[1].degree == 6);
    // The even cut lies between two pairs, of which each device has the whole result.
    StagedPlan even = plan;
    even.ends[0] = cluster_layers(plans, 2)[0];
    CHECK(made(even.ends[0]).copies == 6);
    auto time = [&](const StagedPlan& p) { return build_staged(plans, p, input)->candidate.score.iteration.seconds(); };
    seconds = {{"even", time(even)}, {"moved", time(plan)}};
  }
  REQUIRE(seconds.size() == 2);
  CHECK(seconds["moved"] < 0.9 * seconds["even"]);  // a sixth of the bytes go over the network
}

TEST_CASE("a plan of one stage that communicates inside may take micro-batches at once") {
  Pcg model = build_model({"mlp", {{"batch", 6}}});
  SimulatedCostModel cost(load_topology("summit", {1, {}}));
  Evaluator evaluator(cost, {true, {}, {}}, {});
  SearchOptions options;
  StrategyInput input{model, evaluator, options, 6};
  IntraPlans plans(model, input);
  std::vector<StagedPlan> columns = tensor_plans(plans, 6, {});
  REQUIRE_FALSE(columns.empty());
  REQUIRE(columns[0].plans[0].tensor > 1);
  const std::vector<StagedPlan> hidden = micro_batches_at_once(plans, columns[0]);
  REQUIRE(hidden.size() == 1);  // of six samples there are no quarters
  CHECK(hidden[0].micro_batches == 2);
  CHECK(hidden[0].overlap == 2);
  CHECK(hidden[0].plans == columns[0].plans);
  StagedPlan data = columns[0];
  for (IntraPlan& inside : data.plans) inside = {6, 1, {}};
  CHECK(micro_batches_at_once(plans, data).empty());
}

TEST_CASE("on many devices a selective search for pipelines simulates fewer, and finds one as fast") {
  SimulatedCostModel cost(load_topology("summit", {9, {}}));
  Pcg model = build_model({"mlp", {{"batch", 3456}, {"layers", 4}}});
  auto search = [&](bool selective) {
    Evaluator evaluator(cost, {}, {}, {});
    Outcome found =
        search_stages({model, evaluator, {}, 54},
                      {.plans = 12, .overlap = true, .even = true, .improvements = 40, .selective = selective})
            .value();
    return std::pair(found.candidate.score.iteration, evaluator.scored());
  };
  const auto [all_time, all] = search(false);
  const auto [time, few] = search(true);
  CAPTURE(all, few, all_time.count, time.count);
  CHECK(few < all);
  CHECK(time == all_time);
}

}  // namespace
}  // namespace unity
