// Rewritings of a state (core/search/rewritings.h), and what a search remembers of them.

#include <memory>

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/rewrite/normalize.h"
#include "core/search/part_chain.h"
#include "core/search/rewritings.h"
#include "core/search/work_estimate.h"
#include "simulator/cost_model.h"
#include "tests/support/dice.h"
#include "tests/support/seed.h"

namespace unity {
namespace {

std::vector<Hash> graphs_of(const std::vector<Reached>& reached) {
  std::vector<Hash> hashes;
  for (const Reached& r : reached)
    if (r.state) hashes.push_back(canonical_hash(r.state->pcg));
  return hashes;
}

TEST_CASE("a state's rewritings do not depend on what is remembered of others") {
  std::uint64_t seed = test::seed_of_run();
  INFO("seed " << seed);
  test::Dice dice(seed);
  SimulatedCostModel cost(load_topology("summit", {1, 4}));
  for (const char* name : {"bert-tiny", "dlrm", "inception-v3"}) {
    Evaluator evaluator(cost, {}, {});
    SubstitutionOptions options;
    RewritingGains gains;
    State state{normalize(build_model({name, {{"batch", 16}}})), {}, {}};
    for (int step = 0; step < 4; ++step) {
      RewritingGains none;
      std::vector<Reached> fresh = rewritings(state, options, evaluator, none);
      std::vector<Reached> known = rewritings(state, options, evaluator, gains);
      std::vector<Reached> again = rewritings(state, options, evaluator, gains);
      REQUIRE(!graphs_of(fresh).empty());
      CHECK(graphs_of(known) == graphs_of(fresh));
      CHECK(graphs_of(again) == graphs_of(fresh));
      CHECK(fresh.size() == again.size());
      // Those with the least work come first.
      double before = 0;
      for (const Reached& r : fresh)
        if (r.state) {
          double work = work_seconds(r.state->pcg, cost.topology().specs[0]);
          CHECK(work >= before - 1e-11);
          before = work;
        }
      std::vector<std::size_t> with_state;
      for (std::size_t i = 0; i < fresh.size(); ++i)
        if (fresh[i].state) with_state.push_back(i);
      state = std::move(*fresh[with_state[dice.below(with_state.size())]].state);
    }
  }
}

TEST_CASE("beside what is fastest, level 2 gives what is fastest without rewritings") {
  SimulatedCostModel cost(load_topology("summit", {1, 2}));
  Evaluator evaluator(cost, {true, {}, {}}, {});
  SubstitutionOptions options;
  options.devices = 2;
  State start{normalize(build_model({"xdl", {{"batch", 2048}}})), {}, {}};
  SubstitutionResult result = substitute({start}, evaluator, options);
  REQUIRE(!result.found.empty());
  REQUIRE(result.plain);
  REQUIRE(is_rewritten(result.found[0].state.moves));
  CHECK_FALSE(is_rewritten(result.plain->state.moves));
  CHECK(result.plain->candidate.score.iteration > result.found[0].candidate.score.iteration);
  CHECK(result.plain->candidate.score.iteration <= evaluator.evaluate(start.pcg).value().score.iteration);
  State again = start;
  for (const Move& m : result.plain->state.moves) again = apply_move(again, m, rule_library()).value();
  CHECK(canonical_hash(again.pcg) == canonical_hash(result.plain->candidate.pcg));

  const std::vector<Rule> none;
  options.rules = &none;
  SubstitutionResult sharded = substitute({start}, evaluator, options);
  REQUIRE(sharded.plain);
  CHECK(sharded.plain->candidate.score.iteration == sharded.found[0].candidate.score.iteration);
}

TEST_CASE("a chain without rewritings keeps its layouts, and the parts that have none") {
  const Layout layout{{2, 1}, 3};
  Move rule, shard;
  rule.kind = Move::Kind::rule;
  auto plain = std::make_shared<const PartSolution>(PartSolution{50, 7, 90, {shard}, 1});
  PartSolution rewritten{40, 5, 60, {shard, rule}, 2, plain}, as_it_is{30, 3, 80, {shard}, 3, {}};
  ChainPlan chain{110, 13, 80, {{layout, &rewritten}, {{}, &as_it_is}, {{}, &rewritten}}};
  std::optional<ChainPlan> without = without_rewritings(chain);
  REQUIRE(without);
  CHECK(without->time == 130);
  CHECK(without->persistent == 17);
  CHECK(without->transient == 90);
  REQUIRE(without->chosen.size() == 3);
  CHECK(without->chosen[0].first == layout);
  CHECK(without->chosen[0].second == plain.get());
  CHECK(without->chosen[1].second == &as_it_is);

  CHECK_FALSE(without_rewritings({30, 3, 80, {{{}, &as_it_is}}}));  // the same
  rewritten.plain = nullptr;
  CHECK_FALSE(without_rewritings(chain));  // there is none
}

TEST_CASE("rewritings are the same with the matches of the state before and without") {
  std::uint64_t seed = test::seed_of_run();
  INFO("seed " << seed);
  test::Dice dice(seed);
  SimulatedCostModel cost(load_topology("summit", {1, 4}));
  PreparedRules prepared = prepare_algebraic(rule_library());
  SubstitutionOptions options;
  options.prepared = &prepared;
  std::size_t carried = 0;
  for (const char* name : {"bert-tiny", "dlrm", "inception-v3"}) {
    Evaluator evaluator(cost, {}, {});
    RewritingGains gains;
    State state{normalize(build_model({name, {{"batch", 16}}})), {}, {}};
    for (int step = 0; step < 6; ++step) {
      auto matched = std::make_shared<MatchedGraph>();
      State alone{state.pcg, state.moves, state.steps};
      std::vector<Reached> expected = rewritings(alone, options, evaluator, gains);
      std::vector<Reached> reached = rewritings(state, options, evaluator, gains, &matched->matches);
      REQUIRE(!graphs_of(expected).empty());
      CHECK(graphs_of(reached) == graphs_of(expected));
      CHECK(reached.size() == expected.size());
      carried += matched->matches.carried;
      std::vector<State> next;
      for (Reached& r : reached)
        if (r.state) next.push_back(std::move(*r.state));
      for (const Move& move : layout_moves(state.pcg, {2, 4}, {}, false))
        if (auto moved = apply_move(state, move); moved.ok()) next.push_back(std::move(*moved));
      matched->pcg = state.pcg;
      State chosen = std::move(next[dice.below(next.size())]);
      chosen.from = std::move(matched);
      state = std::move(chosen);
    }
  }
  CHECK(carried > 0);
}

}  // namespace
}  // namespace unity
