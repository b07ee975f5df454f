// Pipelines of which some operators take the batch at once, beside those that take micro-batches.
#include <algorithm>

#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/models/models.h"
#include "core/search/mixed_pipelines.h"
#include "core/search/pipeline_stages.h"
#include "core/search/search.h"
#include "core/search/stage_search.h"
#include "simulator/cost_model.h"

namespace unity {
namespace {

int micro_batches_of(const Pcg& pcg, std::size_t node) {
  return micro_count(node_sharding(pcg, NodeId(static_cast<std::int64_t>(node))));
}

std::size_t count_of(const Pcg& pcg, const std::string& op) {
  return static_cast<std::size_t>(
      std::count_if(pcg.nodes().begin(), pcg.nodes().end(), [&](const Node& n) { return n.op->name() == op; }));
}

// Three matmuls in a row and a loss.
Pcg chain() {
  Builder b("chain");
  ValueRef h = b.input("x", {8, 4});
  for (std::string name : {"a", "b", "c"}) h = b.apply("matmul", {}, {h, b.weight("w" + name, {4, 4})}, name);
  return std::move(b).finish({b.apply("cross_entropy", {}, {h, b.input("labels", {8}, DType::i32)}, "loss")});
}

TEST_CASE("a batch is cut behind operators that take it at once, and put together before them") {
  Pcg model = chain();
  auto named = [](const Pcg& pcg, const std::string& name) {
    auto found = std::find_if(pcg.nodes().begin(), pcg.nodes().end(),
                              [&](const Node& n) { return n.is_compute() && n.name == name; });
    REQUIRE(found != pcg.nodes().end());
    return static_cast<std::size_t>(found - pcg.nodes().begin());
  };
  auto cut = [&](const std::vector<std::string>& names) {
    std::vector<bool> whole(model.size(), false);
    for (const std::string& name : names) whole[named(model, name)] = true;
    return with_micro_batches(model, 2, whole).value();
  };
  Pcg first = cut({"a"});
  CHECK(micro_batches_of(first, named(first, "a")) == 1);
  CHECK(micro_batches_of(first, named(first, "b")) == 2);
  CHECK(micro_batches_of(first, named(first, "loss")) == 2);
  CHECK(count_of(first, "pipeline") == 2);  // of what a makes, and of the labels
  CHECK(count_of(first, "batch") == 0);
  Pcg last = cut({"c", "loss"});
  CHECK(micro_batches_of(last, named(last, "b")) == 2);
  CHECK(micro_batches_of(last, named(last, "c")) == 1);
  CHECK(count_of(last, "pipeline") == 1);
  CHECK(count_of(last, "batch") == 1);
  Pcg middle = cut({"b"});
  CHECK(micro_batches_of(middle, named(middle, "b")) == 1);
  CHECK(micro_batches_of(middle, named(middle, "c")) == 2);
  CHECK(count_of(middle, "pipeline") == 3);
  CHECK(count_of(middle, "batch") == 1);
}

TEST_CASE("beginnings and ends of a pipeline go to all devices, fewer operators first") {
  Pcg model = build_model({"mlp", {{"batch", 96}, {"layers", 6}, {"hidden", 64}}});
  SimulatedCostModel cost(load_topology("summit", {1, 4}));
  Evaluator evaluator(cost, {true, {}, {}}, {});
  StrategyInput input{model, evaluator, {}, 4};
  IntraPlans plans(model, input);
  const IntraPlan data{2, 1, {}};
  REQUIRE(!plans.of_width(2).empty());
  const std::size_t n = plans.operators().size();
  StagedPlan two{.micro_batches = 4, .ends = {n / 2, n}, .devices = {{0, 2}, {2, 2}}};
  two.plans.assign(n, data);
  std::vector<std::size_t> layer_ends;
  for (std::size_t k = 1; k <= n; ++k) layer_ends.push_back(k);
  const std::vector<int> micro_batches = {1, 2, 4};
  StageEstimates estimates(input, plans);
  auto found = mixed_pipelines(plans, estimates, two, {layer_ends, micro_batches}, 4);
  REQUIRE(found.size() == 3);
  CHECK(found[0].empty());  // there are no lookups
  for (std::size_t kind : {1u, 2u}) {
    REQUIRE(found[kind].size() == n / 2 - 1);
    std::ptrdiff_t whole = 0;
    for (const std::vector<StagedPlan>& group : found[kind]) {
      ++whole;
      REQUIRE(!group.empty());
      for (const StagedPlan& p : group) {
        CHECK(std::count(p.whole.begin(), p.whole.end(), true) == whole);
        CHECK(p.whole.front() == (kind == 1));
        CHECK(p.ends.size() == 3);
        CHECK(std::is_sorted(p.ends.begin(), p.ends.end(), std::less_equal<>()));
        CHECK(p.ends.back() == n);
        CHECK((kind == 1 ? p.devices.front() : p.devices.back()) == Resources{0, 4});
        CHECK(build_staged(plans, p, input).ok());
      }
    }
  }
  two.micro_batches = 1;
  CHECK(mixed_pipelines(plans, estimates, two, {layer_ends, micro_batches}, 4).size() == 1);
}

TEST_CASE("of large batches lookups take all at once while the rest takes micro-batches, which is faster") {
  ModelSpec spec{"xdl", {{"batch", 65536}}};
  Pcg model = build_model(spec);
  SimulatedCostModel cost(load_topology("summit", {1, {}}));
  // Of stages whose layers are split alike; with each operator in a way of its own, none is faster in micro-batches.
  SearchOptions options;
  options.optimizer = parse_optimizer("sgd 0.01");
  Evaluator evaluator(cost, {true, options.optimizer, {}}, {});
  StageSearchOptions stages{.layers = {8, 12}, .plans = 12, .several = true, .overlap = true, .even = true};
  Candidate without = search_stages({model, evaluator, options, 6}, stages).value().candidate;
  stages.mixed = true;
  Candidate mixed = search_stages({model, evaluator, options, 6}, stages).value().candidate;
  const std::vector<bool> tables = lookups(mixed.pcg);
  REQUIRE(std::count(tables.begin(), tables.end(), true) == 4);
  int most = 1;
  for (std::size_t i = 0; i < mixed.pcg.size(); ++i) {
    if (!mixed.pcg.nodes()[i].is_compute()) continue;
    if (tables[i]) CHECK(micro_batches_of(mixed.pcg, i) == 1);
    most = std::max(most, micro_batches_of(mixed.pcg, i));
  }
  CHECK(most > 1);
  CHECK(mixed.score.iteration < without.score.iteration);
}

TEST_CASE("strategy unity has the number of micro-batches that is asked for, or none") {
  ModelSpec spec{"mlp", {{"batch", 1536}}};
  Pcg model = build_model(spec);
  SimulatedCostModel cost(load_topology("summit", {1, {}}));
  auto find = [&](int asked) {
    SearchOptions options;
    options.micro_batches = asked;
    return find_plan(spec, model, cost, options).value();
  };
  auto most = [&](const Plan& plan) {
    int found = 1;
    for (std::size_t i = 0; i < plan.pcg.size(); ++i)
      if (plan.pcg.nodes()[i].is_compute()) found = std::max(found, micro_batches_of(plan.pcg, i));
    return found;
  };
  const Plan best = find(0), asked = find(2);
  CHECK(most(best) == 2);                                          // 4 take longer
  CHECK(asked.prediction.iteration == best.prediction.iteration);  // from the plan of one stage without any
  CHECK(most(find(1)) == 1);
  CHECK(most(find(4)) == 4);
}

}  // namespace
}  // namespace unity
