#include <map>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/search/found_plans.h"
#include "core/search/map_on_shares.h"
#include "core/search/mapping_shares.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"
#include "tests/support/plan_builder.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

// Towers that wait for nothing of one another: of two products of n x n matrices each, in so many tasks.
struct Tower {
  int tasks = 1;
  int n = 240;
};

Pcg towers(const std::vector<Tower>& all) {
  Builder b("towers");
  std::vector<ValueRef> tops;
  for (std::size_t t = 0; t < all.size(); ++t) {
    auto [tasks, n] = all[t];
    ValueRef x = b.input(fmt::format("x.{}", t), {n, n});
    if (tasks > 1) x = partition(b, 0, tasks, x);
    for (int layer = 0; layer < 2; ++layer) {
      ValueRef w = b.weight(fmt::format("w.{}.{}", t, layer), {n, n});
      x = b.apply("matmul", {}, {x, tasks > 1 ? replicate(b, tasks, w) : w}, fmt::format("tower.{}.{}", t, layer));
    }
    tops.push_back(tasks > 1 ? combine(b, 0, tasks, x) : x);
  }
  return std::move(b).finish(tops);
}

// By tower: the devices that it has.
std::vector<std::set<int>> devices_of(const Pcg& pcg, const Topology& topology) {
  StubCostModel cost(topology);
  MappingResult result = MappingSearch(cost).run(pcg, Shares::all).value();
  std::vector<std::set<int>> found;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& n = pcg.nodes()[i];
    if (n.op->name() != "matmul") continue;
    auto tower = static_cast<std::size_t>(n.name[n.name.find("tower.") + 6] - '0');
    if (found.size() <= tower) found.resize(tower + 1);
    for (DeviceId d : result.mappings[i].devices(node_grid(pcg, NodeId(static_cast<std::int64_t>(i)))))
      found[tower].insert(d.value);
  }
  return found;
}

std::multiset<std::set<int>> as_set(const std::vector<std::set<int>>& devices) {
  return {devices.begin(), devices.end()};
}

Topology summit(int nodes) { return load_topology("summit", {nodes, 6 * nodes}); }

}  // namespace

TEST_CASE("a share may be cut where a part of a level begins that it has devices of") {
  Topology t = summit(2);
  CHECK(share_boundaries(t, {0, 12}, 0) == std::vector{6});
  CHECK(share_boundaries(t, {0, 12}, 1) == std::vector{3, 6, 9});
  CHECK(share_boundaries(t, {4, 4}, 1) == std::vector{6});
  CHECK(share_boundaries(t, {4, 4}, 2) == std::vector{5, 6, 7});
}

TEST_CASE("cuts are at the boundaries nearest to the proportion of work, nodes before sockets before devices") {
  // A third of the work: 4 of 12 devices. Half and half, and two thirds of it: 8.
  std::vector<int> at;
  for (const ShareCut& cut : share_cuts(summit(2), {0, 12}, {{10, 1}, {10, 1}, {10, 1}}))
    if (std::find(at.begin(), at.end(), cut.second.first) == at.end()) at.push_back(cut.second.first);
  CHECK(at == std::vector{6, 3, 9, 4, 8});
  // Of two parts that share six devices 2 : 1, the heavy one has four.
  std::vector<ShareCut> cuts = share_cuts(uniform_topology(6), {0, 6}, {{20, 1}, {10, 1}});
  CHECK(std::any_of(cuts.begin(), cuts.end(), [](const ShareCut& cut) {
    return cut.first == Resources{0, 4} && cut.sides == std::vector{Side::first, Side::second};
  }));
}

TEST_CASE("no part is cut off with fewer devices than its tasks need") {
  for (int devices = 2; devices <= 6; ++devices)
    for (int width = 1; width <= devices; ++width) {
      const std::vector<PartNeeds> parts = {{7, width}, {5, 1}, {4, devices - 1}, {9, devices}};
      for (const ShareCut& cut : share_cuts(uniform_topology(devices), {0, devices}, parts)) {
        CHECK(cut.first.count + cut.second.count == devices);
        CHECK(cut.second.first == cut.first.count);
        for (std::size_t p = 0; p < parts.size(); ++p)
          if (cut.sides[p] != Side::neither)
            CHECK(parts[p].width <= (cut.sides[p] == Side::first ? cut.first : cut.second).count);
      }
    }
}

TEST_CASE("many devices are cut in halves only") {
  Topology t = uniform_topology(kMostShared + 2);
  for (const ShareCut& cut : share_cuts(t, {0, kMostShared + 2}, {{20, 1}, {10, 1}, {10, 1}})) {
    CHECK(cut.halves);
    CHECK(cut.first.count == kMostShared / 2 + 1);
  }
  CHECK(share_cuts(t, {0, kMostShared / 2 + 1}, {{20, 1}, {10, 1}}).empty());
}

TEST_CASE("three equal towers on three devices, or on six, have a third of them each") {
  CHECK(as_set(devices_of(towers({{1}, {1}, {1}}), uniform_topology(3))) ==
        std::multiset<std::set<int>>{{0}, {1}, {2}});
  Pcg pairs = towers({{2}, {2}, {2}});
  const std::multiset<std::set<int>> thirds = {{0, 1}, {2, 3}, {4, 5}};
  CHECK(as_set(devices_of(pairs, uniform_topology(6))) == thirds);
  CHECK(as_set(devices_of(pairs, summit(1))) == thirds);
}

TEST_CASE("three equal towers of six tasks on three nodes have a node each") {
  std::vector<std::set<int>> devices = devices_of(towers({{6}, {6}, {6}}), summit(3));
  CHECK(as_set(devices) ==
        std::multiset<std::set<int>>{{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}, {12, 13, 14, 15, 16, 17}});
}

TEST_CASE("of two towers with work 2 : 1, one has two thirds of the devices and the other a third") {
  std::vector<std::set<int>> on_three = devices_of(towers({{2}, {1, 190}}), uniform_topology(3));
  CHECK(on_three[0].size() == 2);
  CHECK(on_three[1].size() == 1);
  CHECK_FALSE(on_three[0].contains(*on_three[1].begin()));
  std::vector<std::set<int>> on_six = devices_of(towers({{2}, {4}}), uniform_topology(6));
  CHECK(on_six[0].size() == 2);
  CHECK(on_six[1].size() == 4);
  for (int d : on_six[0]) CHECK_FALSE(on_six[1].contains(d));
}

namespace {

// Evaluated as search candidates are: on halves.
Outcome complete(Evaluator& evaluator, const Pcg& pcg) { return {evaluator.evaluate(pcg).value(), {}, "", {}}; }

}  // namespace

TEST_CASE("the fastest plans are mapped on all shares, and simulated") {
  Pcg three = towers({{1, 960}, {1, 960}, {1, 960}}), narrow = towers({{1, 960}});
  SimulatedCostModel cost(summit(1));
  for (int jobs : {1, 2}) {
    Evaluator evaluator(cost, {false, {}, {}}, {}, {.jobs = jobs});
    StrategyInput input{three, evaluator, {}, 6};
    FastestPlans plans;
    const Outcome in_halves = complete(evaluator, three);
    plans.keep(in_halves);
    plans.keep(complete(evaluator, narrow));  // has nothing to share
    std::vector<Outcome> found = plans.on_shares(input);
    REQUIRE(found.size() == 1);
    CHECK(canonical_hash(found[0].candidate.pcg) == canonical_hash(three));
    CHECK(found[0].candidate.schedule == in_halves.candidate.schedule);
    // Of three equal towers, one has to wait for another on halves.
    CHECK(found[0].candidate.score.iteration.count < in_halves.candidate.score.iteration.count * 7 / 10);
    CHECK(found[0].candidate.mappings == evaluator.map(three, Shares::all)->mappings);
  }
}

TEST_CASE("eight graphs are kept to be mapped on all shares, the fastest") {
  SimulatedCostModel cost(summit(1));
  Evaluator evaluator(cost, {false, {}, {}}, {});
  std::vector<Outcome> all;
  for (int k = 1; k <= 10; ++k) {
    const int n = 240 * (7 * k % 11);  // 1680, 720, 2400, ..
    all.push_back(complete(evaluator, towers({{1, n}, {1, n}, {1, n}})));
  }
  FastestPlans plans;
  for (const Outcome& o : all) plans.keep(o), plans.keep(o);
  StrategyInput input{all[0].candidate.pcg, evaluator, {}, 6};
  std::vector<Outcome> found = plans.on_shares(input);
  std::stable_sort(all.begin(), all.end(),
                   [](auto& a, auto& b) { return a.candidate.score.iteration < b.candidate.score.iteration; });
  REQUIRE(found.size() == 8);
  for (std::size_t i = 0; i < found.size(); ++i)
    CHECK(canonical_hash(found[i].candidate.pcg) == canonical_hash(all[i].candidate.pcg));
  input.devices = kMostShared + 1;
  CHECK(plans.on_shares(input).empty());
}

TEST_CASE("variants that rules rewrote do not crowd out the model as it is, where plans are mapped on all shares") {
  SimulatedCostModel cost(summit(1));
  Evaluator evaluator(cost, {false, {}, {}}, {});
  FastestPlans plans({"merge_matmuls"});
  const Outcome slow = complete(evaluator, towers({{1, 2400}, {1, 2400}, {1, 2400}}));
  plans.keep(slow);
  for (int k = 1; k <= 10; ++k) {
    Outcome rewritten = complete(evaluator, towers({{1, 60 * k}, {1, 60 * k}}));
    rewritten.derivation = {{"shard_matmul_n", "a", 2, 0}, {"merge_matmuls", "a", 0, 0}};
    plans.keep(rewritten);
  }
  std::vector<Outcome> kept = plans.plans();
  REQUIRE(kept.size() == 9);
  CHECK(std::is_sorted(kept.begin(), kept.end(),
                       [](auto& a, auto& b) { return a.candidate.score.iteration < b.candidate.score.iteration; }));
  CHECK(kept.back().candidate.score.iteration == slow.candidate.score.iteration);
}

TEST_CASE("a search ends with plans on shares, the same with any number of threads") {
  ModelSpec spec{"dlrm", {{"batch", 6144}}};
  Pcg model = build_model(spec);
  SimulatedCostModel cost(load_topology("summit", {1, {}}));
  std::vector<Plan> found;
  for (int jobs : {1, 2}) {
    SearchOptions options;
    options.jobs = jobs;
    found.push_back(find_plan(spec, model, cost, options).value());
  }
  CHECK(found[0].prediction.iteration == found[1].prediction.iteration);
  CHECK(found[0].mappings == found[1].mappings);
  CHECK(canonical_hash(found[0].pcg) == canonical_hash(found[1].pcg));
  CHECK(found[0].search.candidates == found[1].search.candidates);
  Evaluator evaluator(cost, {true, found[0].optimizer, found[0].schedule}, {});
  CHECK(found[0].prediction.iteration < evaluator.evaluate(found[0].pcg)->score.iteration);
}

TEST_CASE("the search from a rewritten graph gives what is nearly as fast along, to be mapped on shares") {
  SimulatedCostModel cost(summit(1));
  Evaluator evaluator(cost, {false, {}, {}}, {});
  const Pcg model = towers({{1, 960}});
  StrategyInput input{model, evaluator, {}, 6};
  auto taking = [&](int width, std::int64_t time) {
    Outcome plan = complete(evaluator, towers({{1, width}}));
    plan.candidate.score.iteration = {time};
    return plan;
  };
  for (bool rewritten : {false, true}) {
    FoundPlans found(input, {.rewritten = rewritten}, {});
    found.take(taking(960, 1000));
    found.take(taking(480, 1110));
    found.add_rival(taking(240, 1040));
    found.add_rival(taking(120, 1020));
    const Outcome best = found.release("").value();
    CHECK(best.candidate.score.iteration.count == 1000);
    std::vector<std::int64_t> times;
    for (const Outcome& rival : best.rivals) times.push_back(rival.candidate.score.iteration.count);
    CHECK(times == (rewritten ? std::vector<std::int64_t>{1020, 1040} : std::vector<std::int64_t>{}));
  }
}

TEST_CASE(
    "two chains of large matrices run at the same time, each on a half of the nodes that sums its gradients alone") {
  ModelSpec spec{"mlp@artifact", {{"batch", 12 * 256}}};
  Pcg model = build_model(spec);
  SimulatedCostModel cost(load_topology("summit", {.nodes = 2}));
  SearchOptions options;
  options.jobs = 2;
  options.buckets = options.overlap = options.stored_parts = false;
  options.parallelism = {"data", "model", "reduction"};
  const Plan plan = find_plan(spec, model, cost, options).value();
  std::map<std::string, std::set<int>> nodes;  // by chain
  for (std::size_t i = 0; i < plan.pcg.size(); ++i) {
    const NodeId id(static_cast<std::int64_t>(i));
    if (plan.pcg[id].op->name() != "matmul") continue;
    const std::string chain = plan.pcg[id].name.substr(0, plan.pcg[id].name.find('.'));
    for (DeviceId d : plan.mappings[i].devices(node_grid(plan.pcg, id))) nodes[chain].insert(d.value / 6);
  }
  CHECK(nodes.at("left").size() == 1);
  CHECK(nodes.at("right").size() == 1);
  CHECK(nodes.at("left") != nodes.at("right"));
  options.strategy = "data-parallel", options.parallelism.clear();
  const Plan data = find_plan(spec, model, cost, options).value();
  CHECK(plan.prediction.iteration.seconds() < 0.62 * data.prediction.iteration.seconds());
}
