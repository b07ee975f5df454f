// docs/howto/strategy.md: the example finds what it says.

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "docs/examples/strategy/some_devices.h"
#include "simulator/cost_model.h"

using namespace unity;

TEST_CASE("some-devices takes the number of devices that is fastest, never slower than one or all") {
  SimulatedCostModel cost(load_topology("summit", {.nodes = 2}));
  ModelSpec spec{"mlp-mnist", {{"batch", 96}}};
  Pcg model = build_model(spec);
  SearchOptions options;
  Evaluator evaluator(cost, {true, options.optimizer, options.schedule}, Bytes{0});
  Result<Outcome> found = some_devices({model, evaluator, options, 12});
  REQUIRE(found.ok());
  CHECK(found->stopped_because.find("of 12 devices are the fastest") != std::string::npos);

  SimulatedCostModel one(load_topology("summit", {.nodes = 1, .devices = 1}));
  for (const CostModel* machine : {static_cast<const CostModel*>(&one), static_cast<const CostModel*>(&cost)}) {
    options.strategy = "data-parallel";
    Result<Plan> plan = find_plan(spec, model, *machine, options);
    REQUIRE(plan.ok());
    CHECK(found->candidate.score.iteration <= plan->prediction.iteration);
  }
}

TEST_CASE("some-devices takes one device where the batch has one sample") {
  SimulatedCostModel cost(load_topology("laptop", {.nodes = 1, .devices = 4}));
  Pcg model = build_model({"mlp-mnist", {{"batch", 1}}});
  SearchOptions options;
  Evaluator evaluator(cost, {true, options.optimizer, options.schedule}, Bytes{0});
  CHECK(some_devices({model, evaluator, options, 4}).value().stopped_because == "1 of 4 devices are the fastest");
}
