// Rewritings of a state (core/search/rewritings.h), and what a search remembers of them.

#include <memory>

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/rewrite/normalize.h"
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
