// Operators on devices of their own (core/search/placed_operators.h).
#include <algorithm>
#include <map>

#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/models/models.h"
#include "core/search/placed_operators.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"

namespace unity {
namespace {

// Towers of one matmul each on so many samples, put together.
Pcg towers(int count, std::int64_t samples) {
  Builder b("towers");
  std::vector<ValueRef> results;
  for (int i = 0; i < count; ++i) {
    Builder::Scope tower(b, "tower" + std::to_string(i));
    results.push_back(b.apply("matmul", {}, {b.input("x", {samples, 2048}), b.weight("w", {2048, 2048})}, "product"));
  }
  ValueRef all = b.apply("concat", {std::int64_t{1}}, results);
  ValueRef out = b.apply("matmul", {}, {all, b.weight("top.w", {2048 * count, 8})}, "top");
  ValueRef loss = b.apply("mean_squared_error", {}, {out, b.input("y", {samples, 8})}, "loss");
  return std::move(b).finish({loss});
}

TEST_CASE("what has large weights and little to do is on devices of its own, all else split by batch") {
  SimulatedCostModel cost(load_topology("summit", {2, 4}));
  Evaluator evaluator(cost, {}, {});
  SearchOptions options;
  Pcg model = towers(6, 32);
  auto found = placed_operators({model, evaluator, options, 4}, Bytes{25'000'000});
  REQUIRE(found.ok());
  CHECK(found->stopped_because.starts_with("6 operators with large weights"));
  const Pcg& pcg = found->candidate.pcg;
  std::map<DeviceId, int> products;  // parts, by device
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    NodeId id(static_cast<std::int64_t>(i));
    if (!pcg[id].is_compute()) continue;
    TaskGrid grid = node_grid(pcg, id);
    std::vector<DeviceId> devices = found->candidate.mappings[i].devices(grid);
    if (pcg[id].name.ends_with("product")) {
      for (DeviceId d : devices) ++products[d];
      NodeId weight = pcg[id].inputs[1].node;
      while (!pcg[weight].is_leaf()) weight = pcg[weight].inputs[0].node;
      CHECK(found->candidate.mappings[weight.index()].devices(node_grid(pcg, weight)) == devices);
    } else {
      CHECK(task_count(grid) == 4);
    }
  }
  REQUIRE(products.size() == 4);
  auto [least, most] = std::minmax_element(products.begin(), products.end(),
                                           [](const auto& a, const auto& b) { return a.second < b.second; });
  CHECK(most->second - least->second <= 1);
  // That is what data parallelism loses to.
  options.strategy = "data-parallel";
  CHECK(2 * found->candidate.score.iteration.count <
        find_plan({"towers", {}}, model, cost, options).value().prediction.iteration.count);
}

TEST_CASE("of searches at once, plans go into the log when all have ended, but for what does not fit") {
  SimulatedCostModel cost(load_topology("summit", {2, 4}));
  SearchOptions options;
  Pcg model = towers(6, 32);
  Bytes weights{};
  for (bool one_of_several : {false, true}) {
    Evaluator evaluator(cost, {}, {});
    auto found = placed_operators({model, evaluator, options, 4, one_of_several}, Bytes{25'000'000});
    REQUIRE(found.ok());
    CHECK(evaluator.record().log().best_so_far.empty() == one_of_several);
    CHECK(!evaluator.smallest());
    weights = found->candidate.score.peak();
  }
  Bytes limit{weights.count / 4};
  std::optional<Bytes> least;
  for (bool one_of_several : {false, true}) {
    Evaluator evaluator(cost, {}, limit);
    auto found = placed_operators({model, evaluator, options, 4, one_of_several}, Bytes{25'000'000});
    REQUIRE(found.ok());
    CHECK(evaluator.record().log().best_so_far.empty());
    CHECK(evaluator.record().log().count(LeftOut::does_not_fit) > 0);
    REQUIRE(evaluator.smallest());
    if (least) CHECK(evaluator.smallest()->peak() == *least);
    least = evaluator.smallest()->peak();
  }
}

TEST_CASE("what has much to do is not put on one device") {
  SimulatedCostModel cost(load_topology("summit", {2, 4}));
  Evaluator evaluator(cost, {}, {});
  SearchOptions options;
  Pcg model = towers(6, 16384);
  auto found = placed_operators({model, evaluator, options, 4}, Bytes{25'000'000});
  REQUIRE(!found.ok());
  CHECK(found.error().message == "the model has no operators with large weights and little to do");
}

TEST_CASE("by itself, the search puts tables on devices as the expert does, or better") {
  ModelSpec spec{"dlrm", {{"batch", 4096}}};
  SimulatedCostModel cost(load_topology("summit", {2, 4}));
  SearchOptions options;
  options.strategy = "expert";
  Plan expert = find_plan(spec, build_model(spec), cost, options).value();
  options.strategy = "unity";
  options.seeds = false;
  options.budget = 200;
  Plan plan = find_plan(spec, build_model(spec), cost, options).value();
  CHECK(plan.prediction.iteration <= expert.prediction.iteration);
  // Each table is where it is looked up, on less than all devices.
  int tables = 0;
  for (std::size_t i = 0; i < plan.pcg.size(); ++i) {
    const Node& n = plan.pcg.nodes()[i];
    if (n.op->name() != "embedding_bag") continue;
    ++tables;
    CHECK(task_count(node_grid(plan.pcg, NodeId(static_cast<std::int64_t>(i)))) < 8);
  }
  CHECK(tables == 26);
}

}  // namespace
}  // namespace unity
