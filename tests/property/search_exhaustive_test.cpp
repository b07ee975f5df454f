// The exhaustive search: what it does not score can not be faster than what it finds.
#include <set>

#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/graph/text.h"
#include "core/search/busy_bound.h"
#include "core/search/exhaustive.h"
#include "core/search/operator_orders.h"
#include "core/search/random_plan.h"
#include "simulator/cost_model.h"
#include "tests/support/dice.h"

namespace unity::test {
namespace {

// Two or three products, some with an activation, the last with a sum or without; sizes of which some are odd.
Pcg random_graph(std::uint64_t seed, std::size_t products) {
  Dice dice(seed);
  Builder b("random");
  auto size = [&] { return std::array<std::int64_t, 5>{48, 49, 384, 385, 3072}[dice.below(5)]; };
  ValueRef x = b.input("x", {size(), size()});
  for (std::size_t i = 0; i < products; ++i) {
    std::int64_t width = size();
    ValueRef y = b.apply("matmul", {}, {x, b.weight(fmt::format("w{}", i), {b.dims(x)[1], width})});
    if (dice.below(3) == 0) y = b.apply(dice.below(2) ? "relu" : "gelu", {}, {y});
    if (dice.below(4) == 0) y = b.apply("add", {}, {y, b.weight(fmt::format("b{}", i), {b.dims(x)[0], width})});
    x = y;
  }
  if (dice.below(2) == 0)
    return std::move(b).finish({b.apply("mean_squared_error", {}, {x, b.input("target", b.dims(x))}, "loss")});
  ValueRef labels = b.input("labels", {b.dims(x)[0]}, DType::i32);
  return std::move(b).finish({b.apply("cross_entropy", {}, {x, labels}, "loss"), x});
}

Pcg one_product(std::uint64_t seed) {
  Dice dice(seed);
  Builder b("random");
  auto size = [&] { return std::array<std::int64_t, 4>{48, 49, 384, 3072}[dice.below(4)]; };
  ValueRef x = b.input("x", {size(), size()});
  ValueRef y = b.apply("matmul", {}, {x, b.weight("w", {b.dims(x)[1], size()})});
  if (dice.below(2)) y = b.apply("relu", {}, {y});
  return std::move(b).finish({b.apply("mean_squared_error", {}, {y, b.input("target", b.dims(y))}, "loss")});
}

// x w1 + gelu(x w2), whose second term stands before the first or behind it.
Pcg sum_of_two(bool second_first) {
  Builder b("sum");
  ValueRef x = b.input("x", {96, 768});
  ValueRef w1 = b.weight("w1", {768, 384}), w2 = b.weight("w2", {768, 384});
  auto second = [&] { return b.apply("gelu", {}, {b.apply("matmul", {}, {x, w2}, "second")}); };
  ValueRef last = second_first ? second() : ValueRef{};
  ValueRef first = b.apply("matmul", {}, {x, w1}, "first");
  if (!second_first) last = second();
  ValueRef sum = b.apply("add", {}, {first, last});
  return std::move(b).finish({b.apply("mean_squared_error", {}, {sum, b.input("target", {96, 384})}, "loss")});
}

}  // namespace

TEST_CASE("no plan is faster than what its busiest device computes") {
  int bounded = 0;
  for (const char* name : {"summit", "dgx-h100", "mixed-gpus"})
    for (const char* optimizer : {"sgd", "adam"}) {
      SimulatedCostModel cost(load_topology(name, {1, 4}));
      LowerOptions options;
      options.optimizer.name = optimizer;
      BusyBound bound(cost, options.optimizer, options.schedule);
      std::mt19937_64 random(11);
      for (std::uint64_t seed = 0; seed < 60; ++seed) {
        INFO(name << ", " << optimizer << ", seed " << seed);
        Pcg pcg = random_graph(seed, 1 + seed % 3);
        State state = random_state(pcg, 4, random);
        auto mappings = random_mappings(state.pcg, cost.topology(), random);
        auto program = lower(state.pcg, mappings, cost.topology(), options);
        if (!program.ok()) continue;
        Picoseconds least = bound.busiest(bound.of(state.pcg), mappings);
        CHECK(least.count > 0);
        CHECK(least <= cost.score(*program).iteration);
        ++bounded;
      }
    }
  CHECK(bounded > 200);
}

TEST_CASE("on one device the bound on a graph is its iteration") {
  SimulatedCostModel cost(load_topology("dgx-a100", {1, 1}));
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    INFO("seed " << seed);
    Pcg pcg = one_product(seed);
    BusyBound bound(cost, {}, {});
    auto mappings = natural_mappings(pcg);
    CHECK(bound.busiest(bound.of(pcg), mappings) ==
          cost.score(lower(pcg, mappings, cost.topology()).value()).iteration);
  }
}

TEST_CASE("there is no bound where tasks are measured, share a processor, or come in another schedule") {
  Pcg pcg = one_product(1);
  auto busiest = [&](const char* topology, const Schedule& schedule) {
    SimulatedCostModel cost(load_topology(topology, {1, 2}));
    BusyBound bound(cost, {}, schedule);
    return bound.busiest(bound.of(pcg), natural_mappings(pcg)).count;
  };
  CHECK(busiest("summit", {}) > 0);
  CHECK(busiest("laptop", {}) == 0);  // two logical devices on one processor
  Schedule overlapped;
  overlapped.overlap = 2;
  CHECK(busiest("summit", overlapped) == 0);
}

TEST_CASE("exhaustive search finds the same plan whether it scores all plans or not") {
  const std::vector<std::pair<const char*, int>> machines = {{"summit", 2}, {"dgx-h100", 3}, {"dgx-a100", 4}};
  std::int64_t scored = 0, all = 0;
  for (std::uint64_t seed = 0; seed < 9; ++seed) {
    INFO("seed " << seed);
    auto [topology, devices] = machines[seed % machines.size()];
    SimulatedCostModel cost(load_topology(topology, {1, devices}));
    Pcg pcg = one_product(seed);
    SearchOptions options;
    options.budget = 20000;
    auto search = [&](bool prune, int jobs) {
      Evaluator evaluator(cost, {true, options.optimizer, options.schedule}, {}, {.jobs = jobs});
      Outcome found = score_all({pcg, evaluator, options, devices}, prune).value();
      (prune ? scored : all) += evaluator.scored();
      return found.candidate;
    };
    Candidate whole = search(false, 1), pruned = search(true, 2);
    CHECK(pruned.score.iteration == whole.score.iteration);
    CHECK(pruned.mappings == whole.mappings);
    CHECK(canonical_hash(pruned.pcg) == canonical_hash(whole.pcg));
  }
  CHECK(scored < all);
}

TEST_CASE("within the memory of each plan of its front, exhaustive search finds no faster one") {
  std::size_t several = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    INFO("seed " << seed);
    SimulatedCostModel cost(load_topology("summit", {1, 2}));
    Pcg pcg = one_product(seed);
    SearchOptions options;
    options.budget = 20000, options.pareto = true;
    auto search = [&](Bytes limit) {
      Evaluator evaluator(cost, {true, options.optimizer, options.schedule}, limit);
      return score_all({pcg, evaluator, options, 2}, true).value();
    };
    Outcome all = search({});
    REQUIRE_FALSE(all.front.empty());
    several += all.front.size() > 1;
    CHECK(all.front[0].candidate.score.iteration == all.candidate.score.iteration);
    options.pareto = false;
    for (const Outcome& plan : all.front) {
      const Score &score = plan.candidate.score, found = search(score.peak()).candidate.score;
      CHECK(found.iteration == score.iteration);
      CHECK(found.peak() <= score.peak());
    }
    // Nothing takes less than the last.
    const Bytes least = all.front.back().candidate.score.peak();
    CHECK(search(least - Bytes{1}).candidate.score.peak() >= least);
  }
  CHECK(several > 0);
}

TEST_CASE("operators that do not wait for one another stand in every order") {
  Pcg pcg = sum_of_two(true);
  std::vector<Ordered> orders = operator_orders(pcg, 100);
  REQUIRE(orders.size() == 3);  // the first product before, between and behind the two that make the second term
  std::set<std::vector<std::string>> seen;
  for (const Ordered& ordered : orders) {
    CHECK(canonical_hash(ordered.pcg) == canonical_hash(pcg));
    CHECK(check_well_formed(ordered.pcg).ok());
    std::vector<std::string> names;
    for (std::size_t i = 0; i < ordered.was.size(); ++i) {
      CHECK(ordered.pcg.nodes()[i].op == pcg[ordered.was[i]].op);
      if (ordered.pcg.nodes()[i].is_compute()) names.push_back(ordered.pcg.nodes()[i].name);
    }
    CHECK(seen.insert(names).second);
  }
  CHECK(print(orders[0].pcg) == print(pcg));
  CHECK(operator_orders(pcg, 2).size() == 2);
}

TEST_CASE("the optimum does not depend on the order in which a model is written") {
  SimulatedCostModel cost(load_topology("dgx-a100", {1, 2}));
  SearchOptions options;
  options.budget = 60000, options.algebra = false;
  auto optimum = [&](bool second_first) {
    Pcg pcg = sum_of_two(second_first);
    Evaluator evaluator(cost, {true, options.optimizer, options.schedule}, {}, {});
    return score_all({pcg, evaluator, options, 2}, true)->candidate.score.iteration;
  };
  CHECK(optimum(true) == optimum(false));
}

}  // namespace unity::test
