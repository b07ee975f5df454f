#include <map>

#include <catch2/catch.hpp>

#include "core/search/mapping_problem.h"
#include "core/search/mapping_search.h"
#include "core/search/split.h"
#include "tests/support/plan_builder.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

NodeId find(const Pcg& pcg, std::string_view op, int nth = 0) {
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (pcg.nodes()[i].op->name() == op && nth-- == 0) return NodeId(static_cast<std::int64_t>(i));
  return {};
}

Pcg chain(int layers) {
  Builder b("chain");
  ValueRef x = b.input("x", {32, 16});
  for (int i = 0; i < layers; ++i) {
    Builder::Scope scope(b, fmt::format("layer.{}", i));
    x = b.apply("relu", {}, {b.apply("matmul", {}, {x, b.weight("w", {16, 16})})});
  }
  ValueRef y = b.input("y", {32, 16});
  return std::move(b).finish({b.apply("mean_squared_error", {}, {x, y})});
}

// Two products of n x n matrices, which wait for nothing of one another.
Pcg branches(int n) {
  Builder b("branches");
  ValueRef x = b.input("x", {n, n}), y = b.input("y", {n, n});
  ValueRef l = b.apply("matmul", {}, {x, b.weight("w1", {n, n})});
  ValueRef r = b.apply("matmul", {}, {y, b.weight("w2", {n, n})});
  return std::move(b).finish({b.apply("mean_squared_error", {}, {l, r})});
}

}  // namespace

TEST_CASE("a producer and its consumer with the same grid get the same devices") {
  Builder b("g");
  ValueRef x = partition(b, 0, 4, b.input("x", {32, 16}));
  ValueRef h = b.apply("relu", {}, {b.apply("matmul", {}, {x, replicate(b, 4, b.weight("w", {16, 16}))})});
  ValueRef y = partition(b, 0, 4, b.input("y", {32, 16}));
  Pcg g = std::move(b).finish({reduce(b, 4, b.apply("mean_squared_error", {}, {h, y}))});
  StubCostModel cost(uniform_topology(4));
  MappingResult result = MappingSearch(cost).run(g).value();
  CHECK(result.mappings[find(g, "matmul").index()] == result.mappings[find(g, "relu").index()]);
  CHECK(result.mappings[find(g, "weight").index()].strides.size() == 1);
}

TEST_CASE("independent serial branches run on different halves of the machine when compute dominates") {
  // Two matmuls of 2 * 256 * 256 * 256 flops each (times 3 with the backward pass): 100 us apart, 50 us side by side.
  Pcg g = branches(256);
  StubCostModel cost(uniform_topology(2));
  MappingResult result = MappingSearch(cost).run(g).value();
  CHECK(result.mappings[find(g, "matmul", 0).index()].start != result.mappings[find(g, "matmul", 1).index()].start);
}

TEST_CASE("of independent branches, about half of the work runs on each half of the machine, beside one that is wide") {
  const int devices = 4;
  Builder b("branches");
  ValueRef x = b.input("x", {256, 256});
  std::vector<ValueRef> parts;
  for (int i = 0; i < 6; ++i) {
    ValueRef w = partition(b, 1, 2, b.weight(fmt::format("w.{}", i), {256, 256}));
    ValueRef h = combine(b, 1, 2, b.apply("matmul", {}, {replicate(b, 2, x), w}, fmt::format("narrow.{}", i)));
    parts.push_back(partition(b, 0, devices, h));
  }
  parts.push_back(b.apply("relu", {}, {partition(b, 0, devices, x)}, "wide"));
  Pcg g = std::move(b).finish({combine(b, 0, devices, b.apply("concat", {std::int64_t{1}}, parts))});
  StubCostModel cost(uniform_topology(devices));
  MappingResult result = MappingSearch(cost).run(g).value();
  std::map<int, int> on;
  for (int i = 0; i < 6; ++i) {
    const MachineMapping& mapping = result.mappings[find(g, "matmul", i).index()];
    ++on[mapping.start];
    CHECK(result.mappings[find(g, "weight", i).index()] == mapping);  // parts are stored where they are used
  }
  CHECK(on == std::map<int, int>{{0, 3}, {2, 3}});
}

TEST_CASE("of all mappings, those that only name devices otherwise are one where all devices are at one distance") {
  Pcg g = branches(8);
  auto mappings_on = [&](const Topology& topology) {
    StubCostModel cost(topology);
    return MappingSearch(cost).all(g, 1000).value().size();
  };
  // Three operators of one task each, in the first or in the second half of the machine.
  CHECK(mappings_on(uniform_topology(4)) == 4);
  Topology one_is_far = uniform_topology(4);
  one_is_far.links[0].latency = one_is_far.links[0].latency + Picoseconds{1};
  CHECK(mappings_on(one_is_far) == 2 * 2 * 2);
  StubCostModel cost(one_is_far);
  CHECK(MappingSearch(cost).all(g, 8).ok());
  CHECK_FALSE(MappingSearch(cost).all(g, 7).ok());
}

TEST_CASE("costs of edges are kept by operands and their dimensions, not by a row of numbers") {
  // All boxes in a row are [0, 256) six times and three times two of these.
  auto squares = [](Builder& b) {
    ValueRef r = b.apply("matmul", {}, {b.input("x", {256, 256}), b.weight("w0", {256, 256})});
    return b.apply("matmul", {}, {r, b.weight("w1", {256, 256})});
  };
  auto cubes = [](Builder& b) { return b.apply("relu", {}, {b.apply("relu", {}, {b.input("x", {256, 256, 256})})}); };
  auto graph = [](auto make) {
    Builder b("g");
    return std::move(b).finish({make(b)});
  };
  const Pcg plane = graph(squares), cube = graph(cubes);
  StubCostModel cost(uniform_topology(2));
  auto costs = [&](const Pcg& pcg, MappingSearch::Cache& cache) {
    MappingProblem problem(pcg, cost, cache);
    REQUIRE(problem.build().ok());
    std::vector<std::int64_t> all;
    for (const auto& edge : problem.edges())
      for (int from = 0; from < 2; ++from)
        for (int to = 0; to < 2; ++to) all.push_back(problem.edge_cost(edge, from, to));
    return all;
  };
  MappingSearch::Cache fresh, shared;
  costs(cube, shared);
  CHECK(costs(plane, shared) == costs(plane, fresh));
}

TEST_CASE("a grid larger than the machine is refused by name") {
  Builder b("g");
  ValueRef x = partition(b, 0, 8, b.input("x", {32, 16}));
  Pcg g = std::move(b).finish({combine(b, 0, 8, b.apply("relu", {}, {x}, "activation"))});
  StubCostModel cost(uniform_topology(4));
  auto result = MappingSearch(cost).run(g);
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().message == "activation (relu) has 8 tasks, more than the 4 devices");
}

TEST_CASE("a chain of 24 layers splits into parts of at least 10 operators") {
  std::vector<Part> parts = split(chain(24), 10, {});  // 48 operators and the loss: cuts after 10, 20, 30 operators
  REQUIRE(parts.size() == 4);
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) CHECK(parts[i].out == parts[i + 1].in);
  CHECK(parts[0].in.empty());
  CHECK(parts.back().out.empty());
}

TEST_CASE("equal parts of a split have equal canonical hashes, and stitching them gives the graph back") {
  Pcg g = chain(24);
  std::vector<Part> parts = split(g, 10, {});
  Layout serial{{1, 1}, 1};
  std::vector<Pcg> graphs;
  for (std::size_t i = 0; i < parts.size(); ++i)
    graphs.push_back(
        part_graph(g, parts[i], i == 0 ? Layout{} : serial, i + 1 == parts.size() ? Layout{} : serial).value());
  CHECK(canonical_hash(graphs[1]) == canonical_hash(graphs[2]));
  CHECK(canonical_hash(graphs[0]) != canonical_hash(graphs[1]));
  CHECK(canonical_hash(stitch(g, parts, graphs).value()) == canonical_hash(g));
}

TEST_CASE("boundary layouts of a [48, 512, 1024] tensor on 12 devices") {
  // d0 in {1,2,3,4,6,12} with 12/d0 copies; the sequence instead where 12/d0 divides 512: 4 (d0 = 3), 2 (d0 = 6);
  // serial.
  std::vector<Layout> layouts = boundary_layouts({{48, 512, 1024}, DType::f32}, 12);
  CHECK(layouts.size() == 9);
}

TEST_CASE(
    "boundary layouts of a matrix split its columns, too; those of a vector and of a scalar the first dimension") {
  // d0 in {1, 2, 4} with copies, or with columns in 4 and 2 parts; serial.
  std::vector<Layout> matrix = boundary_layouts({{8, 12}, DType::f32}, 4);
  CHECK(matrix.size() == 6);
  CHECK(std::count(matrix.begin(), matrix.end(), Layout{{1, 4}, 1}) == 1);
  CHECK(std::count(matrix.begin(), matrix.end(), Layout{{2, 2}, 1}) == 1);
  CHECK(boundary_layouts({{8}, DType::f32}, 4).size() == 4);
  CHECK(boundary_layouts({{}, DType::f32}, 4).size() == 3);  // copies alone
}
