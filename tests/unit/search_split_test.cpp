// Cuts through two values, and mappings of graphs that are not series-parallel.
#include <random>

#include <catch2/catch.hpp>

#include "core/graph/text.h"
#include "core/rewrite/rule_text.h"
#include "core/search/split.h"
#include "core/search/table_elimination.h"
#include "tests/support/plan_builder.h"

using namespace unity;
using namespace unity::test;

namespace {

// Cells that read the results of the two before them.
Pcg cells(int count, int operators) {
  Builder b("cells");
  ValueRef previous = b.input("x", {32, 16}), x = b.apply("relu", {}, {previous});
  for (int i = 0; i < count; ++i) {
    Builder::Scope scope(b, fmt::format("cell.{}", i));
    ValueRef left = b.apply("matmul", {}, {previous, b.weight("l", {16, 16})});
    ValueRef right = b.apply("matmul", {}, {x, b.weight("r", {16, 16})});
    for (int k = 0; k < operators; ++k) right = b.apply("add", {}, {b.apply("tanh", {}, {right}), left});
    previous = std::exchange(x, right);
  }
  ValueRef y = b.input("y", {32, 16});
  return std::move(b).finish({b.apply("mean_squared_error", {}, {x, y})});
}

SumOfTables random_sum(std::mt19937& random, int variables, int pairs, int values) {
  SumOfTables sum;
  auto costs = [&](std::size_t n) {
    std::vector<std::int64_t> c(n);
    for (auto& x : c) x = static_cast<std::int64_t>(random() % 100);
    return c;
  };
  auto any = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int v = 0; v < variables; ++v) sum.own.push_back(costs(static_cast<std::size_t>(1 + any(values))));
  for (int p = 0; p < pairs; ++p) {
    int a = any(variables), b = any(variables);
    if (a == b) continue;
    sum.pairs.push_back(
        {a, b, costs(sum.own[static_cast<std::size_t>(a)].size() * sum.own[static_cast<std::size_t>(b)].size())});
  }
  return sum;
}

std::int64_t cost_of(const SumOfTables& sum, const std::vector<int>& values) {
  auto at = [&](int v) { return static_cast<std::size_t>(values[static_cast<std::size_t>(v)]); };
  std::int64_t cost = 0;
  for (std::size_t v = 0; v < values.size(); ++v) cost += sum.own[v][static_cast<std::size_t>(values[v])];
  for (const auto& p : sum.pairs) cost += p.cost[at(p.a) * sum.own[static_cast<std::size_t>(p.b)].size() + at(p.b)];
  return cost;
}

std::int64_t brute_force(const SumOfTables& sum) {
  std::vector<int> values(sum.own.size(), 0);
  for (std::int64_t least = cost_of(sum, values);;) {
    std::size_t v = 0;
    while (v < values.size() && ++values[v] == std::ssize(sum.own[v])) values[v++] = 0;
    if (v == values.size()) return least;
    least = std::min(least, cost_of(sum, values));
  }
}

}  // namespace

TEST_CASE("the least sum of random tables is that of all combinations, and is that of the values given") {
  std::mt19937 random(1);
  for (int run = 0; run < 200; ++run) {
    SumOfTables sum = random_sum(random, 7, 3 + run % 15, 3);
    LeastSum least = least_sum(sum, 1000);  // 3 ^ 6 at most
    CHECK(least.exact);
    CHECK(least.cost == brute_force(sum));
    CHECK(least.cost == cost_of(sum, least.values));
  }
}

TEST_CASE("a sum that is too wide is solved nearly, always alike") {
  std::mt19937 random(2);
  double worst = 1;
  for (int run = 0; run < 100; ++run) {
    SumOfTables sum = random_sum(random, 8, 24, 3);
    LeastSum least = least_sum(sum, 27);
    CHECK(least.cost == cost_of(sum, least.values));
    CHECK(least.values == least_sum(sum, 27).values);
    worst = std::max(worst, static_cast<double>(least.cost) / static_cast<double>(brute_force(sum)));
  }
  CHECK(worst < 1.25);
}

TEST_CASE("a band of a thousand variables, each next to the three before it, takes tables of four") {
  std::mt19937 random(3);
  SumOfTables sum = random_sum(random, 1000, 0, 3);
  for (int v = 0; v < 1000; ++v)
    for (int u = std::max(0, v - 3); u < v; ++u) {
      std::vector<std::int64_t> costs(sum.own[static_cast<std::size_t>(u)].size() *
                                      sum.own[static_cast<std::size_t>(v)].size());
      for (auto& c : costs) c = static_cast<std::int64_t>(random() % 100);
      sum.pairs.push_back({u, v, std::move(costs)});
    }
  CHECK(least_sum(sum, 81).exact);
}

TEST_CASE("a large graph of cells that read the two before them is cut between cells, through both results") {
  Pcg g = cells(12, 10);  // 22 operators each, beside the first and the loss
  std::vector<Part> parts = split(g, 10, {});
  REQUIRE(parts.size() == 13);  // nothing reads the last but one behind the last, which is cut inside, too
  CHECK(parts[0].in.empty());
  CHECK(parts.back().out.empty());
  for (std::size_t p = 0; p + 1 < parts.size(); ++p) {
    CHECK(parts[p].out.size() == 2);
    CHECK(parts[p].out == parts[p + 1].in);
  }
  CHECK(parts[3].in[0] == parts[2].in[1]);         // what the cell before the last has made passes by
  CHECK(split(cells(6, 10), 10, {}).size() == 1);  // not a large one
}

TEST_CASE("parts that are cut through two values are alike, and make the graph again") {
  Pcg g = cells(12, 10);
  std::vector<Part> parts = split(g, 10, {});
  Layout serial{{1, 1}, 1};
  std::vector<Pcg> graphs;
  for (std::size_t i = 0; i < parts.size(); ++i)
    graphs.push_back(
        part_graph(g, parts[i], i == 0 ? Layout{} : serial, i + 1 == parts.size() ? Layout{} : serial).value());
  CHECK(canonical_hash(graphs[4]) == canonical_hash(graphs[5]));
  CHECK(canonical_hash(stitch(g, parts, graphs).value()) == canonical_hash(g));
}

TEST_CASE("of the places that make a part large enough, it is cut where the fewest rules are disturbed") {
  // Runs of relu, one tanh between two of them: a pair of relus is a match, through which it is better not to cut.
  auto graph = [](int operators, int run) {
    Builder b("runs");
    ValueRef h = b.input("x", {8, 8});
    for (int i = 1; i <= operators; ++i) h = b.apply(i % (run + 1) == 0 ? "tanh" : "relu", {}, {h});
    return std::move(b).finish({h});
  };
  const std::vector<Rule> rules = parse_rules("rule relu_twice\n  relu(relu(x)) => relu(x)\n");
  auto ends = [](const std::vector<Part>& parts) {
    std::vector<std::int64_t> values;
    for (const Part& p : parts)
      for (NodeId v : p.out) values.push_back(v.value);  // of operators, counted from 1, as the input comes first
    return values;
  };
  CHECK(ends(split(graph(40, 6), 5, {})) == std::vector<std::int64_t>{5, 10, 15, 20, 25, 30, 35});
  // Behind the last relu of a run, or the tanh after it; every 7 operators.
  CHECK(ends(split(graph(40, 6), 5, rules)) == std::vector<std::int64_t>{6, 13, 20, 27, 34});
  // Where all are disturbed alike: the first. Parts stay below twice the minimum.
  CHECK(ends(split(graph(40, 100), 5, rules)) == std::vector<std::int64_t>{5, 10, 15, 20, 25, 30, 35});
  CHECK(ends(split(graph(40, 12), 5, rules)) == std::vector<std::int64_t>{5, 12, 17, 25, 30, 35});
}

TEST_CASE("a graph is not cut between branches that can run at the same time") {
  // Two chains from inputs of their own, added; behind each operator of the first a single value is open.
  auto towers = [](int first, int second, int behind) {
    Builder b("towers");
    ValueRef ends[2];
    for (int t : {0, 1}) {
      ValueRef h = b.input(t == 0 ? "left" : "right", {64, 64});
      for (int i = 0; i < (t == 0 ? first : second); ++i)
        h = b.apply("matmul", {}, {h, b.weight(fmt::format("w{}.{}", t, i), {64, 64})});
      ends[t] = h;
    }
    ValueRef h = b.apply("add", {}, {ends[0], ends[1]});
    for (int i = 0; i < behind; ++i) h = b.apply("matmul", {}, {h, b.weight(fmt::format("w2.{}", i), {64, 64})});
    return std::move(b).finish({h});
  };
  CHECK(split(towers(30, 30, 0), 10, {}).size() == 1);
  // What is behind both can be cut, and the towers stay together.
  std::vector<Part> parts = split(towers(30, 30, 30), 10, {});
  REQUIRE(parts.size() > 1);
  const Pcg g = towers(30, 30, 30);
  const auto add =
      std::find_if(g.nodes().begin(), g.nodes().end(), [](const Node& n) { return n.op->name() == "add"; });
  for (std::size_t p = 0; p + 1 < parts.size(); ++p)
    for (NodeId cut : parts[p].out) CHECK(std::cmp_greater_equal(cut.index(), add - g.nodes().begin()));
  // A little that needs nothing of what is before it, as the first layer of a decoder, is no branch.
  CHECK(split(towers(60, 1, 0), 10, {}).size() > 1);
}

TEST_CASE("a graph is not cut where summands of a value pass by") {
  // What a4 and a5 add up to is open to the end.
  Pcg g = parse_pcg(
      "pcg g { x = input([8, 8]) w = weight([8, 8])\n"
      "a1 = relu(x) a2 = relu(a1) a3 = relu(a2) a4 = relu(a3) a5 = relu(a4)\n"
      "s = reduce(2, stack_partials(a4, a5))\n"
      "b1 = matmul(a5, w) b2 = relu(b1) b3 = relu(b2) b4 = relu(b3) return add(b4, s) }");
  std::vector<Part> parts = split(g, 2, {});
  REQUIRE(parts.size() >= 2);
  Layout serial{{1, 1}, 1};
  std::vector<Pcg> graphs;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i + 1 < parts.size()) {
      REQUIRE(parts[i].out.size() == 1);
      CHECK(g[parts[i].out[0]].name.substr(0, 1) == "a");
    }
    graphs.push_back(
        part_graph(g, parts[i], i == 0 ? Layout{} : serial, i + 1 == parts.size() ? Layout{} : serial).value());
  }
  CHECK(canonical_hash(stitch(g, parts, graphs).value()) == canonical_hash(g));
}

TEST_CASE("what parts of a graph are joined to returns the same values in the same order, inputs and weights too") {
  Pcg g = parse_pcg(
      "pcg g { x = input([8, 8]) w = weight([8, 8]) unused = weight([4]) a1 = relu(x) m = tanh(a1) a2 = tanh(a1)\n"
      "a3 = matmul(a2, w) a4 = relu(a3) n = tanh(a4) a5 = tanh(a4) a6 = relu(a5) a7 = tanh(a6)\n"
      "return a7, unused, n, x, m, n, w }");
  std::vector<Part> parts = split(g, 2, {});
  REQUIRE(parts.size() >= 3);
  Layout serial{{1, 1}, 1};
  std::vector<Pcg> graphs;
  for (std::size_t i = 0; i < parts.size(); ++i)
    graphs.push_back(
        part_graph(g, parts[i], i == 0 ? Layout{} : serial, i + 1 == parts.size() ? Layout{} : serial).value());
  const Pcg whole = stitch(g, parts, graphs).value();
  auto names = [](const Pcg& pcg) {
    std::vector<std::string> result;
    for (ValueRef v : pcg.outputs()) result.push_back(pcg[v.node].name);
    return result;
  };
  CHECK(names(whole) == names(g));
}
