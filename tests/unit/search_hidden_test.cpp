// Plans whose communications are hidden (core/search/hidden_communications.h).
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/rewrite/normalize.h"
#include "core/search/column_then_row.h"
#include "core/search/data_parallel.h"
#include "core/search/hidden_communications.h"
#include "simulator/cost_model.h"

namespace unity {
namespace {

// Two layers of a transformer on two Summit nodes: columns and rows in groups of `tensor` GPUs, which sum twice a
// layer, the batch between the groups.
struct Hidden {
  explicit Hidden(int tensor) {
    State state = shard_batch({normalize(model), {}, {}}, 12 / tensor).value();
    if (tensor > 1) state = column_then_row(state, tensor, 12, true).value();
    plan = {evaluator.evaluate(state.pcg).value(), state.steps, {}, {}, {}};
  }

  // The fastest variant, by how many micro-batches are taken at once.
  std::map<int, Picoseconds> variants(const SearchOptions& of = {}) {
    std::map<int, Picoseconds> fastest;
    for (const Outcome& o : hide_communications({plan}, {model, evaluator, of, 12}, seen)) {
      auto [at, fresh] = fastest.try_emplace(o.candidate.schedule.overlap, o.candidate.score.iteration);
      if (!fresh) at->second = std::min(at->second, o.candidate.score.iteration);
    }
    return fastest;
  }

  Pcg model = build_model({"bert-large", {{"batch", 96}, {"layers", 2}}});
  SimulatedCostModel cost{load_topology("summit", {2, {}})};
  Evaluator evaluator{cost, {true, {}, {}}, {}};
  Outcome plan;
  std::set<Hash> seen;
};

TEST_CASE("communications are hidden behind one micro-batch more, and behind more where that gains") {
  Hidden few(2);
  const std::map<int, Picoseconds> gains = few.variants();
  REQUIRE(gains.contains(1));
  REQUIRE(gains.contains(2));
  REQUIRE(gains.at(2) < few.plan.candidate.score.iteration);
  REQUIRE(gains.at(2) < gains.at(1));
  CHECK((gains.contains(3) || gains.contains(4)));
  CHECK(few.variants().empty());  // of each graph once

  Hidden many(6);
  const std::map<int, Picoseconds> loses = many.variants();
  REQUIRE(loses.contains(2));
  REQUIRE(loses.at(2) > many.plan.candidate.score.iteration);
  CHECK(loses.contains(1));
  CHECK_FALSE(loses.contains(3));
  CHECK_FALSE(loses.contains(4));
}

TEST_CASE("communications are hidden as far as the options allow") {
  Hidden plan(2);
  SearchOptions options;
  options.overlap = false;
  CHECK(plan.variants(options).empty());
  options.overlap = true, options.micro_batches = 1;
  CHECK(plan.variants(options).size() == 1);
  plan.seen.clear(), options.micro_batches = 4;
  CHECK(plan.variants(options).contains(4));
  CHECK_FALSE(plan.seen.empty());
}

TEST_CASE("where passes do not communicate there is nothing to hide") {
  Hidden data(1);
  CHECK_FALSE(passes_communicate(data.plan.candidate.pcg));
  CHECK(data.variants().empty());
}

}  // namespace
}  // namespace unity
