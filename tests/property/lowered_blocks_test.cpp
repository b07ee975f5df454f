// A few blocks of devices tell what all do.
#include <algorithm>

#include <catch2/catch.hpp>

#include "core/graph/text.h"
#include "core/machine/profile.h"
#include "core/models/models.h"
#include "core/plan/device_blocks.h"
#include "core/rewrite/match.h"
#include "core/rewrite/normalize.h"
#include "core/search/data_parallel.h"
#include "core/search/evaluator.h"
#include "core/search/memory_tradeoffs.h"
#include "core/search/pipeline_stages.h"
#include "core/search/random_plan.h"
#include "core/search/staged_plan.h"
#include "core/search/strategy.h"
#include "core/search/substitution.h"
#include "simulator/cost_model.h"
#include "tests/support/dice.h"
#include "tests/support/topology_text.h"

namespace unity::test {
namespace {

// Rules that make summands of values (Unity, Fig. 11b).
const std::vector<int>& stacking_rules() {
  static const std::vector<int> rules = [] {
    std::vector<int> found;
    for (std::size_t r = 0; r < rule_library().size(); ++r) {
      const Rule& rule = rule_library()[r];
      if (rule.algebraic() &&
          std::any_of(rule.nodes.begin() + static_cast<std::ptrdiff_t>(rule.source_nodes), rule.nodes.end(),
                      [](const PatternNode& n) { return n.op->name() == "stack_partials"; }))
        found.push_back(static_cast<int>(r));
    }
    return found;
  }();
  return rules;
}

// One of their applications, if there is any.
State stacked(const State& state, Dice& dice) {
  std::vector<Move> moves;
  MatchIndex index(state.pcg);
  for (int r : stacking_rules()) {
    auto matches = static_cast<int>(find_matches(index, rule_library()[static_cast<std::size_t>(r)]).size());
    for (int m = 0; m < matches; ++m) moves.push_back({Move::Kind::rule, r, m, 0});
  }
  if (moves.empty()) return state;
  auto next = apply_move(state, moves[dice.below(moves.size())]);
  return next.ok() ? std::move(*next) : state;
}

// Shardings and copies by chance, until no operator can be cut any further.
State sharded(const Pcg& model, int devices, Dice& dice) {
  State state{normalize(model), {}, {}};
  const int degrees[] = {devices, devices / 2, devices / 4, 2};
  if (auto split = shard_batch(state, degrees[dice.below(4)]); split.ok()) state = std::move(*split);
  bool stacks = dice.below(2) == 0;
  for (int attempt = 0; attempt < 30; ++attempt) {
    if (stacks && attempt % 10 == 0) state = stacked(state, dice);
    std::vector<Move> moves = layout_moves(state.pcg, degrees_of_devices(devices), {}, false);
    auto next = apply_move(state, moves[dice.below(moves.size())]);
    if (next.ok() && most_tasks(next->pcg) <= devices) state = std::move(*next);
  }
  return state;
}

// What is scored from few devices is the score of all, or near to it where it says so. Returns whether it does not.
bool check_scores(const SimulatedCostModel& cost, const Pcg& pcg, const std::vector<MachineMapping>& mappings,
                  const Schedule& schedule = {}) {
  Evaluator evaluator(cost, {}, {});
  auto few = evaluator.evaluate(pcg, mappings, schedule);
  EvaluatorOptions options;
  options.blocks = false;
  auto all = Evaluator(cost, {}, {}, options).evaluate(pcg, mappings, schedule);
  REQUIRE(few.ok() == all.ok());
  if (!few.ok()) return true;
  const double apart = few->exact ? 0 : 1e-3;
  auto few_time = static_cast<double>(few->score.iteration.count),
       time = static_cast<double>(all->score.iteration.count);
  CHECK(few_time <= time);
  CHECK(few_time >= (1 - apart) * time);
  auto near = [&](Bytes from_few, Bytes from_all) {
    return from_few >= from_all &&
           static_cast<double>(from_few.count) <= (1 + apart) * static_cast<double>(from_all.count);
  };
  CHECK(near(few->score.peak(), all->score.peak()));
  CHECK(near(few->score.communicated, all->score.communicated));
  CHECK(near(few->memory.persistent, all->memory.persistent));
  CHECK(near(few->memory.transient, all->memory.transient));
  CHECK(evaluator.evaluate_all(*few)->score.iteration == all->score.iteration);
  if (schedule.fuse == Fuse::none) {
    Schedule fused = schedule;
    fused.fuse = Fuse::chains;
    check_scores(cost, pcg, mappings, fused);
  }
  return few->exact;
}

struct Case {
  ModelSpec model;
  std::string topology;
  int nodes;
};

}  // namespace

TEST_CASE("scores of plans are those of a few blocks of devices") {
  std::vector<Case> cases = {{{"bert-large", {{"layers", 1}, {"batch", 24}, {"seq-len", 32}}}, "summit", 4},
                             {{"mlp", {{"batch", 96}}}, "summit", 4},
                             {{"resnext-50", {{"batch", 96}, {"blocks", 1}}}, "summit", 4},
                             {{"xdl", {{"batch", 96}}}, "dgx-a100", 2}};
  const std::uint64_t seed = GENERATE(range(1, 61));
  CAPTURE(seed);
  Dice dice(seed);
  const Case& c = cases[seed % cases.size()];
  CAPTURE(c.model.name);
  SimulatedCostModel cost(load_topology(c.topology, {.nodes = c.nodes}));
  auto devices = static_cast<int>(cost.topology().device_count());
  State state = sharded(build_model(c.model), devices, dice);
  auto mapping = MappingSearch(cost).run(state.pcg);
  REQUIRE(mapping.ok());
  Schedule schedule;
  const Bytes buckets[] = {{0}, {1'000'000}, {25'000'000}};
  schedule.bucket = buckets[dice.below(3)];
  schedule.overlap = static_cast<int>(dice.below(4));
  CAPTURE(schedule.bucket.count, schedule.overlap);
  CHECK(check_scores(cost, state.pcg, mapping->mappings, schedule));
  // In micro-batches, as far as the operators have them.
  auto pcg = with_micro_batches(state.pcg, 2 + static_cast<int>(dice.below(2)));
  if (!pcg.ok()) return;
  mapping = MappingSearch(cost).run(*pcg);
  REQUIRE(mapping.ok());
  check_scores(cost, *pcg, mapping->mappings, schedule);
}

TEST_CASE("scores of plans with measured collectives are those of a few blocks of devices") {
  std::vector<Case> cases = {{{"bert-large", {{"layers", 1}, {"batch", 24}, {"seq-len", 32}}}, "summit", 4},
                             {{"mlp", {{"batch", 96}}}, "summit", 4},
                             {{"mlp", {{"batch", 96}}}, "dgx-a100", 2}};
  const std::uint64_t seed = GENERATE(range(1, 25));
  CAPTURE(seed);
  Dice dice(seed);
  const Case& c = cases[seed % cases.size()];
  Topology topology = load_topology(c.topology, {.nodes = c.nodes});
  DeviceProfile profile;
  profile.collectives = collectives_of(topology, "nccl", 1);
  int number = 0;
  for (const char* kind : {"send", "broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter", "all_to_all"})
    for (const char* shape :
         {"2 gpu", "3 gpu", "4 gpu", "8 gpu", "2 socket", "2 socket x 3 gpu", "2 node", "4 node", "2 node x 8 gpu",
          "4 node x 3 gpu", "2 node x 2 socket x 3 gpu", "4 node x 2 socket", "4 node x 2 socket x 3 gpu"}) {
      double seconds = 1e-5 * (1 + number++ % 7);
      profile.collectives->times[fmt::format("{} of {}", kind, shape)] = {{1e3, seconds, seconds},
                                                                          {1e7, 20 * seconds, 20 * seconds}};
    }
  use_profile(topology, profile);
  SimulatedCostModel cost(topology);
  State state = sharded(build_model(c.model), static_cast<int>(topology.device_count()), dice);
  auto mapping = MappingSearch(cost).run(state.pcg);
  REQUIRE(mapping.ok());
  check_scores(cost, state.pcg, mapping->mappings);
}

TEST_CASE("scores of plans whose operators get parts from several devices are those of a few blocks of devices") {
  const std::uint64_t seed = GENERATE(range(1, 25));
  CAPTURE(seed);
  Dice dice(seed);
  SimulatedCostModel cost(load_topology("summit", {.nodes = 2}));
  State state{normalize(build_model({"dlrm", {{"batch", 96}, {"rows", 100}, {"hidden", 64}}})), {}, {}};
  // Operators one by one, so that those of one operator's operands are here and there.
  for (std::size_t tries = 1 + dice.below(6); tries > 0; --tries) {
    std::vector<Move> moves = layout_moves(state.pcg, {2, 3}, {}, true);
    auto next = apply_move(state, moves[dice.below(moves.size())]);
    if (next.ok() && most_tasks(next->pcg) <= 12) state = std::move(*next);
  }
  std::vector<MachineMapping> mappings = MappingSearch(cost).run(state.pcg)->mappings;
  for (std::size_t i = 0; i < mappings.size(); ++i)
    if (const std::string& op = state.pcg.nodes()[i].op->name(); op == "embedding_bag" && mappings[i].strides.empty())
      mappings[i].start = static_cast<int>(dice.below(12));
  check_scores(cost, state.pcg, mappings);
}

TEST_CASE("scores of pipelines are those of a few blocks of devices") {
  std::vector<Case> cases = {{{"bert-large", {{"layers", 4}, {"batch", 576}, {"seq-len", 32}}}, "summit", 12},
                             {{"mlp", {{"batch", 576}}}, "dgx-h100", 12},
                             {{"resnext-50", {{"batch", 576}, {"blocks", 1}}}, "summit", 12},
                             {{"gpt2-small", {{"layers", 4}, {"batch", 576}, {"seq-len", 32}}}, "dgx-a100", 12}};
  // In nodes: equal, and different.
  const std::vector<std::vector<int>> widths = {{6, 6}, {4, 4, 4}, {3, 6, 3}, {3, 3, 6}, {6, 3, 3}};
  const std::uint64_t seed = GENERATE(range(1, 25));
  CAPTURE(seed);
  Dice dice(seed);
  const Case& c = cases[seed % cases.size()];
  SimulatedCostModel cost(load_topology(c.topology, {.nodes = c.nodes}));
  auto devices = static_cast<int>(cost.topology().device_count());
  Evaluator evaluator(cost, {}, {});
  StrategyInput input{build_model(c.model), evaluator, {}, devices};
  IntraPlans plans(input.model, input);
  StagedPlan plan;
  const int micros[] = {1, 2, 4, 8};
  plan.micro_batches = micros[dice.below(4)];
  plan.stored_parts = dice.below(3) == 0;
  if (int order = dice.below(3); order > 0)
    plan.order = order == 1 ? PipelineOrder::one_f_one_b : PipelineOrder::zero_bubble;
  plan.remat = c.model.name != "mlp" && dice.below(3) == 0;
  const std::vector<int>& nodes = widths[dice.below(widths.size())];
  int first = 0;
  for (std::size_t s = 0; s < nodes.size(); ++s) {
    int width = nodes[s] * devices / c.nodes;
    plan.devices.push_back({first, width});
    first += width;
    std::vector<IntraPlan> inside = plans.of_width(width);
    std::erase_if(inside, [&](const IntraPlan& p) { return !plans.has_micro_batches(p, plan.micro_batches); });
    if (inside.empty()) return;
    plan.ends.push_back(plans.operators().size() * (s + 1) / nodes.size());
    plan.plans.resize(plan.ends.back(), dice.below(2) == 0 ? inside[0] : inside[dice.below(inside.size())]);
  }
  CAPTURE(c.model.name, to_string(plan));
  auto outcome = build_staged(plans, plan, input);
  if (!outcome.ok()) return;
  check_scores(cost, outcome->candidate.pcg, outcome->candidate.mappings, outcome->candidate.schedule);
}

TEST_CASE("weights in parts, of which some are an element larger, are told exactly, in micro-batches, too") {
  struct Weights {
    ModelSpec model;
    int nodes, micro_batches;
  };
  const Weights c =
      GENERATE(Weights{{"bert-large", {{"layers", 1}, {"batch", 24}, {"seq-len", 32}}}, 4, 1},
               Weights{{"bert-large", {{"layers", 1}, {"batch", 48}, {"seq-len", 32}}}, 4, 2},
               Weights{{"resnext-50", {{"batch", 96}, {"blocks", 1}}}, 4, 2}, Weights{{"mlp", {{"batch", 96}}}, 8, 1});
  CAPTURE(c.model.name, c.micro_batches);
  SimulatedCostModel cost(load_topology("summit", {.nodes = c.nodes}));
  auto devices = static_cast<int>(cost.topology().device_count());
  State data = shard_batch({normalize(build_model(c.model)), {}, {}}, devices).value();
  Pcg pcg = with_stored_parts(data.pcg).value();
  if (c.micro_batches > 1) pcg = with_micro_batches(pcg, c.micro_batches).value();
  std::vector<MachineMapping> mappings = natural_mappings(pcg);
  const LoweredBlocks blocks = DeviceBlocks(cost.topology()).find(pcg, mappings);
  std::vector<int> alike = blocks.alike();
  CHECK(blocks.size == 1);
  const auto kinds = std::count_if(alike.begin(), alike.end(), [](int n) { return n > 0; });
  CHECK(kinds > 1);  // with and without an element more
  CHECK(kinds < devices / 2);
  for (int overlap : {0, 1}) CHECK(check_scores(cost, pcg, mappings, {.overlap = overlap, .bucket = {1'000'000}}));
  for (int stage : {1, 2, 3}) CHECK(check_scores(cost, pcg, mappings, {.zero_stage = stage}));
}

TEST_CASE("the first micro-batches of a pipeline tell how long all take") {
  const PipelineOrder order = GENERATE(PipelineOrder::gpipe, PipelineOrder::one_f_one_b, PipelineOrder::zero_bubble);
  SimulatedCostModel cost(load_topology("summit", {.nodes = 6}));
  Evaluator evaluator(cost, {}, {});
  StrategyInput input{build_model({"bert-large", {{"layers", 6}, {"batch", 768}, {"seq-len", 64}}}), evaluator, {}, 36};
  IntraPlans plans(input.model, input);
  IntraPlan inside{12, 1, {}};
  REQUIRE(plans.sharded(inside));
  std::size_t operators = plans.operators().size();
  StagedPlan plan{32,
                  {operators / 3, 2 * operators / 3, operators},
                  {{0, 12}, {12, 12}, {24, 12}},
                  std::vector<IntraPlan>(operators, inside),
                  false,
                  order};
  auto all = build_staged(plans, plan, input);
  REQUIRE(all.ok());
  // ZB-H1 is told by twice as many.
  const double most = static_cast<double>(all->candidate.tasks) * (order == PipelineOrder::zero_bubble ? 0.7 : 0.5);
  auto first = build_staged(plans, plan, input, most);
  REQUIRE(first.ok());
  CHECK_FALSE(first->candidate.exact);
  CHECK_FALSE(evaluator.evaluate_all(first->candidate, most).ok());
  CHECK(evaluator.evaluate_all(first->candidate)->exact);
  CHECK(first->candidate.tasks < all->candidate.tasks);
  CHECK(first->candidate.tasks > all->candidate.tasks / 4);  // those of two programs: of 6 micro-batches, and some more
  auto near = [](std::int64_t a, std::int64_t b, double apart) {
    return static_cast<double>(a) == Approx(static_cast<double>(b)).epsilon(apart);
  };
  const Score &some = first->candidate.score, &whole = all->candidate.score;
  CHECK(near(some.iteration.count, whole.iteration.count, 1e-3));
  REQUIRE(some.peak_memory.size() == whole.peak_memory.size());
  for (std::size_t d = 0; d < whole.peak_memory.size(); ++d)
    CHECK(static_cast<double>(some.peak_memory[d].count) ==
          Approx(static_cast<double>(whole.peak_memory[d].count)).epsilon(0.02));
  CHECK(near(some.communicated.count, whole.communicated.count, 1e-6));
  if (order != PipelineOrder::one_f_one_b) return;
  // By as many as there are stages, and some more: too fast, but not too large.
  auto fewest = build_staged(plans, plan, input, 0.27 * static_cast<double>(all->candidate.tasks));
  REQUIRE(fewest.ok());
  const Candidate& least = fewest->candidate;
  CHECK(static_cast<double>(least.tasks) < 0.4 * static_cast<double>(all->candidate.tasks));
  CHECK(near(least.score.iteration.count, whole.iteration.count, 0.07));
  for (std::size_t d = 0; d < whole.peak_memory.size(); ++d)
    CHECK(near(least.score.peak_memory[d].count, whole.peak_memory[d].count, 0.02));
}

TEST_CASE("a device stands for all in data parallelism, wherever the machine looks the same from each") {
  auto block = [](const std::string& topology, int devices) {
    Topology machine = load_topology(topology, {.nodes = 2});
    State state = shard_batch({normalize(build_model({"mlp-mnist", {{"batch", 96}}})), {}, {}}, devices).value();
    return DeviceBlocks(machine).find(state.pcg, natural_mappings(state.pcg)).size;
  };
  CHECK(block("summit", 12) == 1);
  CHECK(block("summit", 6) == 1);  // half of the devices do it, half do nothing
  CHECK(block("summit", 8) == 1);
}

TEST_CASE("stages inside a node are told by a device each only where these reach one another alike, by own links") {
  auto block = [](const std::string& topology, int nodes, int each) {
    SimulatedCostModel cost(load_topology(topology, {.nodes = nodes}));
    Evaluator evaluator(cost, {}, {});
    StrategyInput input{build_model({"mlp", {{"batch", 192}, {"layers", 4}, {"hidden", 256}}}),
                        evaluator,
                        {},
                        static_cast<int>(cost.topology().device_count())};
    IntraPlans plans(input.model, input);
    IntraPlan inside{each, 1, {}};
    REQUIRE(plans.sharded(inside));
    const std::size_t operators = plans.operators().size();
    StagedPlan plan{
        2, {operators / 2, operators}, {{0, each}, {each, each}}, std::vector<IntraPlan>(operators, inside)};
    Candidate made = build_staged(plans, plan, input)->candidate;
    return DeviceBlocks(cost.topology()).find(made.pcg, made.mappings).size;
  };
  CHECK(block("summit", 1, 3) == 0);  // three GPUs of a socket share the way to the other
  CHECK(block("dgx-h100", 1, 4) == 1);
  CHECK(block("summit", 4, 12) == 6);  // which share the way to other nodes
}

TEST_CASE("pairs of devices repeat, where pairs do not straddle sockets") {
  auto block = [](const std::string& topology) {
    Topology machine = load_topology(topology, {.nodes = 4, .devices = 24});
    // 12 parts of the batch, each by a pair.
    Pcg pcg = parse_pcg(
        "pcg g { x = input([24, 8]) w = weight([8, 12]) y = input([24, 12])\n"
        "z = matmul(replicate(2, partition(0, 12, x)), replicate(12, partition(1, 2, w)))\n"
        "return reduce(24, mean_squared_error(z, partition(1, 2, partition(0, 12, y)))) }");
    SimulatedCostModel cost(machine);
    return DeviceBlocks(machine).find(pcg, MappingSearch(cost).run(pcg).value().mappings).size;
  };
  CHECK(block("dgx-a100") == 2);
  CHECK(block("summit") == 6);  // sockets have three
}

TEST_CASE("blocks that lie otherwise in the levels are not alike where collectives are measured by these") {
  // Two nodes of three devices on one ideal switch: links do not tell {2, 3} from {0, 1}, the levels do.
  Topology machine = test::topology_of(
      "hierarchy: {node: 2, gpu: 3}\ndevice: v100-sxm2-16gb\nswitches: {machine: [fabric]}\n"
      "links: [{within: machine, between: [node*.gpu*, fabric], kind: infiniband, bandwidth: 1 GB/s, latency: 1 "
      "us}]\n");
  Pcg pcg = parse_pcg(
      "pcg g { x = input([24, 8]) w = weight([8, 12]) y = input([24, 12])\n"
      "z = matmul(replicate(2, partition(0, 3, x)), replicate(3, partition(1, 2, w)))\n"
      "return reduce(6, mean_squared_error(z, partition(1, 2, partition(0, 3, y)))) }");
  std::vector<MachineMapping> mappings = MappingSearch(SimulatedCostModel(machine)).run(pcg).value().mappings;
  int without = DeviceBlocks(machine).find(pcg, mappings).size;
  CHECK(without == 2);
  DeviceProfile profile;
  profile.collectives = collectives_of(machine, "nccl", 1);
  use_profile(machine, profile);
  CHECK(DeviceBlocks(machine).find(pcg, mappings).size == 0);
}

}  // namespace unity::test
