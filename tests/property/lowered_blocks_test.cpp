// A few blocks of devices tell what all do.
#include <algorithm>

#include <catch2/catch.hpp>

#include "core/graph/text.h"
#include "core/models/models.h"
#include "core/plan/device_blocks.h"
#include "core/rewrite/match.h"
#include "core/rewrite/normalize.h"
#include "core/search/data_parallel.h"
#include "core/search/evaluator.h"
#include "core/search/random_plan.h"
#include "core/search/substitution.h"
#include "simulator/cost_model.h"
#include "tests/support/dice.h"

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
  EvaluatorOptions all;
  all.blocks = false;
  auto few = Evaluator(cost, {}, {}).evaluate(state.pcg, mapping->mappings);
  auto complete = Evaluator(cost, {}, {}, all).evaluate(state.pcg, mapping->mappings);
  REQUIRE(few.ok() == complete.ok());
  if (!few.ok()) return;
  CHECK(few->score.iteration == complete->score.iteration);
  CHECK(few->score.peak() == complete->score.peak());
  CHECK(few->score.communicated == complete->score.communicated);
  CHECK(few->memory.persistent == complete->memory.persistent);
  CHECK(few->memory.transient == complete->memory.transient);
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

}  // namespace unity::test
