// The paper's worked example (Figs. 1 and 2): 784-512-10, 64 samples, 2 GPUs of a Summit node. Three fixed plans,
// written as sequences of rules, lowered and simulated.

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/rewrite/axis_classes.h"
#include "core/rewrite/derive.h"
#include "core/rewrite/normalize.h"
#include "core/search/mapping_search.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"

using namespace unity;

namespace {

constexpr int kElementBytes = 4;

// The nth node of an operator, as the rules of a sequence name their places.
NodeId place(const Pcg& pcg, std::string_view op, int nth = 0) {
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (pcg.nodes()[i].op->name() == op && nth-- == 0) return NodeId(static_cast<std::int64_t>(i));
  FAIL("there is no such operator " << op);
  return {};
}

Pcg shard(const Pcg& pcg, std::string_view op, int nth, std::string_view axis) {
  NodeId node = place(pcg, op, nth);
  const AxisTable& table = *pcg[node].table;
  for (std::size_t a = 0; a < table.axes.size(); ++a)
    if (table.axes[a].name == axis) return normalize(apply_shard(pcg, node, static_cast<int>(a), 2).value());
  FAIL("no axis " << axis);
  return pcg;
}

Pcg model() { return normalize(build_model({"mlp-mnist", {{"batch", 64}}})); }

std::int64_t elements_moved(const Pcg& pcg) {
  SimulatedCostModel cost(load_topology("summit", {1, 2}));
  auto where = MappingSearch(cost).run(pcg).value();
  Score score = cost.score(lower(pcg, where.mappings, cost.topology()).value());
  CHECK(score.iteration.count > 0);
  return score.communicated.count / kElementBytes;
}

}  // namespace

TEST_CASE("data parallelism as rules moves 813,056 elements") {
  // Every operator along the batch; each device all-reduces 784*512 + 512*10 weight gradients: 2 (n-1) of them in all.
  Pcg g = shard(shard(shard(shard(model(), "matmul", 0, "m"), "relu", 0, "d0"), "matmul", 1, "m"), "cross_entropy", 0,
                "d0");
  CHECK(elements_moved(g) == 813'056);
}

TEST_CASE("the paper's joint plan as rules moves 131,712 elements") {
  // Reduction in the first matmul, relu on every device, columns in the second: 2 * (2 * 64 * 512) + 2 * 64 * 5.
  Pcg g = shard(shard(model(), "matmul", 0, "k"), "matmul", 1, "n");
  g = normalize(apply_replicate(g, place(g, "relu"), 2).value());
  CHECK(elements_moved(g) == 131'712);
}

TEST_CASE("output, then reduction as rules moves 1,280 elements") {
  // Columns, relu on columns, rows: 64 * 10 summands to one device, and their gradient back.
  Pcg g = shard(shard(shard(model(), "matmul", 0, "n"), "relu", 0, "d1"), "matmul", 1, "k");
  CHECK(elements_moved(g) == 1'280);
}

TEST_CASE("the plan found for the worked example moves no more than the paper's and is faster than data parallelism") {
  SimulatedCostModel cost(load_topology("summit", {1, 2}));
  ModelSpec spec{"mlp-mnist", {{"batch", 64}}};
  SearchOptions options;
  Plan found = find_plan(spec, build_model(spec), cost, options).value();
  options.strategy = "data-parallel";
  Plan data = find_plan(spec, build_model(spec), cost, options).value();
  CHECK(data.prediction.communicated.count == 813'056 * kElementBytes);
  CHECK(found.prediction.communicated.count <= 131'712 * kElementBytes);
  CHECK(found.prediction.iteration < data.prediction.iteration);
}
