#include <cmath>

#include <catch2/catch.hpp>

#include "core/plan/collective_key.h"
#include "simulator/collectives/running.h"
#include "simulator/collectives/steps.h"
#include "simulator/cost_model.h"
#include "simulator/simulate.h"
#include "tests/support/simulator_build.h"

using namespace unity;
using namespace unity::test;

namespace {

std::vector<int> first(int n) {
  std::vector<int> devices;
  for (int i = 0; i < n; ++i) devices.push_back(i);
  return devices;
}

std::vector<DeviceId> ids(const std::vector<int>& devices) {
  std::vector<DeviceId> result;
  for (int d : devices) result.push_back(DeviceId(d));
  return result;
}

SimulationOptions asking(CollectiveAlgorithm algorithm, bool steps = false) {
  return {.steps = steps, .collectives = {.algorithm = algorithm}};
}

SimulationResult result(const Topology& t, CollectiveKind kind, const std::vector<int>& devices, std::int64_t elements,
                        const SimulationOptions& options = {}) {
  ProgramBuilder b(static_cast<int>(t.device_count()));
  b.communicate(kind, devices, elements);
  return simulate(b.program, t, options);
}

double seconds(const Topology& t, CollectiveKind kind, const std::vector<int>& devices, std::int64_t elements,
               const SimulationOptions& options = {}) {
  return result(t, kind, devices, elements, options).iteration.seconds();
}

constexpr double kAlpha = 5e-6, kBandwidth = 10e9;

// Every device on a port of one switch; a hop from device to device takes kAlpha.
Topology star(int n) {
  MachineBuilder m(n);
  VertexId s = m.add_switch("s");
  for (int d = 0; d < n; ++d) m.link(m.device(d), s, kBandwidth * 1e-9, kAlpha * 1e6 / 2);
  return m.finish();
}

constexpr double kFarAlpha = 20e-6, kFarBandwidth = 2e9;

// Nodes like star(), joined by a network with a port for each device; a hop between nodes takes kFarAlpha.
Topology cluster(int nodes, int devices) {
  MachineBuilder m(nodes * devices);
  VertexId network = m.add_switch("network");
  for (int n = 0; n < nodes; ++n) {
    VertexId s = m.add_switch("s" + std::to_string(n));
    for (int d = n * devices; d < (n + 1) * devices; ++d) {
      m.link(m.device(d), s, kBandwidth * 1e-9, kAlpha * 1e6 / 2);
      m.link(m.device(d), network, kFarBandwidth * 1e-9, kFarAlpha * 1e6 / 2);
      m.topology.links.back().kind = LinkKind::ethernet;
    }
  }
  // The way over the network has as few hops as that over the switch, but takes longer.
  m.topology.levels = {{"node", nodes}, {"device", devices}};
  return m.finish();
}

constexpr std::int64_t kElements = 2'400'000;
constexpr double kSize = 4.0 * kElements;
constexpr CollectiveKind kAllReduce = CollectiveKind::all_reduce;

}  // namespace

TEST_CASE("ring collectives on an idle uniform machine take the closed form within a tick for each step") {
  auto check = [](const Topology& t, bool steps) {
    auto n = static_cast<int>(t.device_count());
    INFO(n << " devices" << (steps ? " step by step" : ""));
    const std::int64_t elements = n * 10'000;
    double around = ((n - 1) * kAlpha + (n - 1.0) / n * 4.0 * elements / kBandwidth) * 1e12;
    auto ticks = [&](CollectiveKind kind) {
      return static_cast<double>(result(t, kind, first(n), elements, {.steps = steps}).iteration.count);
    };
    CHECK(std::abs(ticks(CollectiveKind::all_reduce) - 2 * around) <= 2 * (n - 1));
    CHECK(std::abs(ticks(CollectiveKind::all_gather) - around) <= n - 1);
    CHECK(std::abs(ticks(CollectiveKind::reduce_scatter) - around) <= n - 1);
    auto predicted = SimulatedCostModel(t).collective_time(kAllReduce, ids(first(n)), {4 * elements}).count;
    CHECK(std::abs(static_cast<double>(predicted) - 2 * around) <= 1);
  };
  for (int n = 2; n <= 512; n += n < 40 ? 1 : 59) check(ring_machine(n, kBandwidth * 1e-9, kAlpha * 1e6), false);
  for (int n : {2, 3, 5, 7, 12, 33, 96, 192}) check(ring_machine(n, kBandwidth * 1e-9, kAlpha * 1e6), true);
  for (int n : {2, 5, 12}) check(all_pairs(n, kBandwidth * 1e-9, kAlpha * 1e6), true);
  for (int n : {2, 9, 24}) check(star(n), true);
}

TEST_CASE("the edges of a ring carry what the Program counts as its bytes") {
  for (int n : {2, 3, 8}) {
    Topology t = star(n);
    for (CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather}) {
      ProgramBuilder b(n);
      b.communicate(kind, first(n), 24'000);
      CollectiveCache cache(t);
      auto choice = cache.choose(b.program.communications[0]);
      double bytes = 0, by_steps = 0;
      for (const CollectivePhase& p : choice->shape->phases)
        bytes += static_cast<double>(p.pattern->edges.size()) * p.share * choice->bytes;
      for (const Step& step : make_steps(*choice->shape, 0, choice->bytes, {}).steps) by_steps += step.bytes;
      auto counted = static_cast<double>(communication_bytes(b.program.communications[0]).count);
      CHECK(bytes == Approx(counted).epsilon(1e-12));
      CHECK(by_steps == Approx(counted).epsilon(1e-12));
    }
  }
}

TEST_CASE("more steps than memory holds are refused") {
  // Two trees on 4 devices have 3 edges up and 3 down each: half of 1 GB in chunks of a byte is 500 million times that.
  Topology t = star(4);
  const std::vector<DeviceId> group = {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)};
  CollectiveCache cache(t);
  auto choice = cache.choose(CollectiveKind::all_reduce, group, {1'000'000'000},
                             {.algorithm = CollectiveAlgorithm::tree, .chunk = {1}});
  CHECK_THROWS_WITH(make_steps(*choice->shape, 0, choice->bytes, {1}), Catch::Contains("expected at most 67108864"));
}

TEST_CASE("in a double binary tree every rank has children in at most one of the trees, and both are shallow") {
  for (int n = 1; n <= 300; ++n) {
    std::array<Tree, 2> trees = double_binary_tree(n);
    std::vector<int> inner(static_cast<std::size_t>(n));
    for (const Tree& tree : trees) {
      std::vector<int> children(static_cast<std::size_t>(n));
      for (int parent : tree)
        if (parent >= 0) ++children[static_cast<std::size_t>(parent)];
      for (std::size_t r = 0; r < children.size(); ++r) {
        REQUIRE(children[r] <= 2);
        inner[r] += children[r] > 0;
      }
      REQUIRE(std::count(tree.begin(), tree.end(), -1) == 1);
      REQUIRE(depth(tree) == static_cast<int>(std::log2(n)));
    }
    REQUIRE(*std::max_element(inner.begin(), inner.end()) <= 1);
  }
}

TEST_CASE("an all-reduce by trees takes 2 log2(n) a + 2 S/B, a broadcast half of it") {
  for (int n : {4, 8, 32, 64}) {
    INFO(n << " devices");
    double deep = std::log2(n);
    double expected = 2 * deep * kAlpha + 2 * kSize / kBandwidth;
    SimulationOptions tree = asking(CollectiveAlgorithm::tree);
    CHECK(seconds(star(n), kAllReduce, first(n), kElements, tree) == Approx(expected).epsilon(1e-9));
    // The root stands above two trees on the others, of depth floor(log2(n-1)).
    double down = std::floor(std::log2(n - 1)) + 1;
    CHECK(seconds(star(n), CollectiveKind::broadcast, first(n), kElements, tree) ==
          Approx(down * kAlpha + kSize / kBandwidth).epsilon(1e-9));
  }
  for (int n : {5, 12, 100})
    CHECK(seconds(star(n), kAllReduce, first(n), kElements, asking(CollectiveAlgorithm::tree)) <=
          2 * std::log2(n) * kAlpha + 2 * kSize / kBandwidth);
}

TEST_CASE("a binomial tree takes log2(n) rounds, an all-reduce twice that, step by step too") {
  for (int n : {4, 5, 8, 12, 64, 100})
    for (bool steps : {false, true}) {
      INFO(n << " devices" << (steps ? " step by step" : ""));
      const double rounds = std::ceil(std::log2(n)) * (kAlpha + kSize / kBandwidth);
      for (CollectiveKind kind : {CollectiveKind::broadcast, CollectiveKind::reduce, kAllReduce})
        CHECK(seconds(star(n), kind, first(n), kElements, asking(CollectiveAlgorithm::binomial, steps)) ==
              Approx(kind == kAllReduce ? 2 * rounds : rounds).epsilon(1e-9));
    }
}

TEST_CASE("chunks cost the filling of the pipeline") {
  // A chain of 4 hops; 9.6 MB in chunks of 2.4 MB: 4 chunks, the last of which leaves the first device after three
  // others, and goes 4 hops: (4 + 4 - 1) x (2.4 MB / B). Latencies come once for each hop.
  Topology t = ring_machine(8, 10, 5);
  for (bool steps : {false, true}) {
    SimulationOptions options{.steps = steps, .collectives = {.chunk = {2'400'000}}};
    CHECK(seconds(t, CollectiveKind::broadcast, {0, 1, 2, 3, 4}, kElements, options) ==
          Approx(4 * kAlpha + 7 * 2.4e6 / kBandwidth).epsilon(1e-9));
  }
}

TEST_CASE("a hierarchical all-reduce takes the sum of its stages, and is chosen only when asked for") {
  for (auto [nodes, devices] : {std::pair(2, 4), std::pair(3, 2), std::pair(4, 8)}) {
    Topology t = cluster(nodes, devices);
    int n = nodes * devices;
    double inside = 2 * (devices - 1) * kAlpha + 2 * (devices - 1.0) / devices * kSize / kBandwidth;
    double between = 2 * (nodes - 1) * kFarAlpha + 2 * (nodes - 1.0) / nodes * kSize / (devices * kFarBandwidth);
    SimulationOptions asked = asking(CollectiveAlgorithm::hierarchical);
    asked.collectives.chunk = {kElements * 4};  // all data at once
    CHECK(seconds(t, kAllReduce, first(n), kElements, asked) == Approx(inside + between).epsilon(1e-9));
    asked.steps = true;
    CHECK(seconds(t, kAllReduce, first(n), kElements, asked) == Approx(inside + between).epsilon(1e-9));
    asked.steps = false;
    CHECK(seconds(t, CollectiveKind::all_gather, first(n), kElements, asked) ==
          Approx((inside + between) / 2).epsilon(1e-9));
    CHECK(seconds(t, CollectiveKind::reduce_scatter, first(n), kElements, asked) ==
          Approx((inside + between) / 2).epsilon(1e-9));
    CHECK(result(t, kAllReduce, first(n), kElements).collectives[0].alternatives[0].algorithm ==
          CollectiveAlgorithm::ring);
  }
}

TEST_CASE("the stages of a hierarchical collective work on chunks one behind the other") {
  for (auto [nodes, devices] : {std::pair(2, 4), std::pair(4, 8)})
    for (int chunks : {2, 4, 8}) {
      INFO(nodes << " nodes of " << devices << ", " << chunks << " chunks");
      Topology t = cluster(nodes, devices);
      int n = nodes * devices;
      // Of a chunk: inside a node, and between nodes for the all-reduce. Inside, the stage before and the one behind
      // share the links: twice the bytes.
      double c = chunks, x = (devices - 1.0) / devices * kSize / kBandwidth / c;
      double y = 2 * (nodes - 1.0) / nodes * kSize / (devices * kFarBandwidth) / c;
      double near = (devices - 1) * kAlpha, far = 2 * (nodes - 1) * kFarAlpha;
      double all_reduce = 2 * (near + x) + 2 * std::max(near + x, far + y) + (c - 2) * std::max(near + 2 * x, far + y);
      double all_gather = near + x + far / 2 + y / 2 + (c - 1) * std::max(near + x, far / 2 + y / 2);
      SimulationOptions asked = asking(CollectiveAlgorithm::hierarchical);
      asked.collectives.chunk = {kElements * 4 / chunks};
      CHECK(seconds(t, kAllReduce, first(n), kElements, asked) == Approx(all_reduce).epsilon(1e-9));
      for (CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter})
        CHECK(seconds(t, kind, first(n), kElements, asked) == Approx(all_gather).epsilon(1e-9));
      Picoseconds whole = result(t, kAllReduce, first(n), kElements, asked).iteration;
      asked.fold = true;
      CHECK(result(t, kAllReduce, first(n), kElements, asked).iteration == whole);
      asked.fold = false, asked.steps = true;
      CHECK(seconds(t, kAllReduce, first(n), kElements, asked) == Approx(all_reduce).epsilon(0.05));
      // Left open, the number of chunks is at least as good.
      auto found = result(t, kAllReduce, first(n), kElements, asking(CollectiveAlgorithm::hierarchical));
      CHECK(found.iteration.seconds() <= all_reduce * (1 + 1e-9));
      CHECK(found.collectives[0].alternatives[0].chunks > 1);
    }
  // Of few bytes, latency decides: all at once.
  CHECK(result(cluster(2, 4), kAllReduce, first(8), 8, asking(CollectiveAlgorithm::hierarchical))
            .collectives[0]
            .alternatives[0]
            .chunks == 1);
}

TEST_CASE("direct collectives and those of a switch take their closed forms") {
  const int n = 8;
  Topology t = star(n);
  double part = kSize / kBandwidth / n;
  SimulationOptions direct = asking(CollectiveAlgorithm::direct);
  CHECK(seconds(t, CollectiveKind::all_gather, first(n), kElements, direct) == Approx(kAlpha + 7 * part));
  CHECK(seconds(t, kAllReduce, first(n), kElements, direct) == Approx(2 * kAlpha + 14 * part));
  CHECK(seconds(t, CollectiveKind::broadcast, first(n), kElements, direct) == Approx(kAlpha + 7 * 8 * part));
  // All data into the switch, and once more the eighth of which the device holds the sum.
  CHECK(seconds(t, kAllReduce, first(n), kElements, asking(CollectiveAlgorithm::in_switch)) ==
        Approx(kAlpha + 9 * part));
}

TEST_CASE("of many devices, equal pairs of an all-to-all are one flow, with the same closed form") {
  // A device's S / n is in n parts, of which n - 1 leave it through its port of the switch.
  for (int n : {8, 256, 257, 300}) {
    Topology t = star(n);
    CollectiveCache cache(t);
    auto choice = cache.choose(CollectiveKind::all_to_all, ids(first(n)), {static_cast<std::int64_t>(kSize)});
    double expected = kAlpha + (n - 1.0) / n * kSize / n / kBandwidth;
    CHECK(choice->predicted().seconds() == Approx(expected).epsilon(1e-6));
    AloneResult alone = simulate_alone(t, choice, {}, false);
    CHECK(alone.time.seconds() == Approx(expected).epsilon(1e-6));
    CHECK(alone.transfers == (n > 256 ? 1 : n * (n - 1)));
    if (n > 256) CHECK_THROWS_WITH(simulate_alone(t, choice, {}, true), Catch::Contains("not simulated step by step"));
  }
  // 40 nodes of 8: pairs in a node and pairs between nodes; the latter keep a port of the network busier.
  Topology t = cluster(40, 8);
  CollectiveCache cache(t);
  auto choice = cache.choose(CollectiveKind::all_to_all, ids(first(320)), {static_cast<std::int64_t>(kSize)});
  double between = kFarAlpha + 312.0 / 320 * kSize / 320 / kFarBandwidth;
  AloneResult alone = simulate_alone(t, choice, {}, false);
  CHECK(alone.time.seconds() == Approx(between).epsilon(1e-6));
  CHECK(alone.transfers == 2);
}

TEST_CASE("step by step, an algorithm takes about as long as its flows") {
  for (auto [algorithm, tolerance] :
       {std::pair(CollectiveAlgorithm::ring, 1e-8), std::pair(CollectiveAlgorithm::tree, 0.05),
        std::pair(CollectiveAlgorithm::direct, 1e-8), std::pair(CollectiveAlgorithm::in_switch, 0.05)})
    for (int n : {4, 7, 16}) {
      INFO(to_string(algorithm) << " of " << n);
      double flows = seconds(star(n), kAllReduce, first(n), kElements, asking(algorithm));
      CHECK(seconds(star(n), kAllReduce, first(n), kElements, asking(algorithm, true)) ==
            Approx(flows).epsilon(tolerance));
    }
  for (CollectiveAlgorithm algorithm : {CollectiveAlgorithm::chain, CollectiveAlgorithm::tree})
    for (CollectiveKind kind : {CollectiveKind::broadcast, CollectiveKind::reduce})
      CHECK(seconds(star(9), kind, first(9), kElements, asking(algorithm, true)) ==
            Approx(seconds(star(9), kind, first(9), kElements, asking(algorithm))).epsilon(0.05));
}

TEST_CASE("two all-reduces over one link each get half of it until one ends") {
  // Devices 0 and 2 left, 1 and 3 right of a link of 10 GB/s; both rings cross it once in each direction. The first
  // moves 1 MB on each edge, the second 2 MB: at 5 GB/s each the first ends after 0.2 ms, the rest of the second takes
  // 0.1 ms more.
  MachineBuilder m(4);
  VertexId left = m.add_switch("left"), right = m.add_switch("right");
  for (int d = 0; d < 4; ++d) m.link(m.device(d), d % 2 ? right : left, 100);
  m.link(left, right, 10);
  Topology t = m.finish();
  ProgramBuilder b(4);
  b.communicate(kAllReduce, {0, 1}, 250'000);
  b.communicate(kAllReduce, {2, 3}, 500'000);
  for (bool steps : {false, true}) {
    Trace trace = simulate(b.program, t, {.steps = steps}).trace;
    for (const Span& span : trace.spans)
      CHECK(span.end.seconds() == Approx(span.task.value == 0 ? 0.2e-3 : 0.3e-3).epsilon(1e-6));
  }
}

TEST_CASE("a topology without a library takes rings, chains, trees and direct exchanges, as the runtime does") {
  Topology t = star(4);
  CollectiveCache cache(t);
  auto chosen = [&](CollectiveKind kind, Bytes bytes = {100'000'000}) {
    auto choice = cache.choose(kind, ids({0, 1, 2, 3}), bytes);
    CHECK(choice->alternatives.size() == 1);
    CHECK(choice->reason == ChoiceReason::only);
    return choice->shape->algorithm;
  };
  CHECK(chosen(kAllReduce) == CollectiveAlgorithm::ring);
  CHECK(chosen(CollectiveKind::reduce_scatter) == CollectiveAlgorithm::ring);
  CHECK(chosen(CollectiveKind::broadcast) == CollectiveAlgorithm::chain);
  CHECK(chosen(CollectiveKind::all_to_all) == CollectiveAlgorithm::direct);
  for (CollectiveKind small : {kAllReduce, CollectiveKind::broadcast, CollectiveKind::reduce})
    CHECK(chosen(small, {1000}) == CollectiveAlgorithm::binomial);
  CHECK(chosen(CollectiveKind::all_gather, {1000}) == CollectiveAlgorithm::ring);
  // Trees can not gather: the ring stays.
  auto gather =
      cache.choose(CollectiveKind::all_gather, ids({0, 1, 2, 3}), {1000}, {.algorithm = CollectiveAlgorithm::tree});
  CHECK(gather->shape->algorithm == CollectiveAlgorithm::ring);
  CHECK(gather->reason == ChoiceReason::only);
  // Neither can rings exchange what differs from pair to pair.
  ProgramBuilder b(4);
  b.all_to_all({0, 1, 2, 3}, 1000);
  auto exchange = cache.choose(b.program.communications[0], {.algorithm = CollectiveAlgorithm::ring});
  CHECK(exchange->shape->algorithm == CollectiveAlgorithm::direct);
  CHECK(exchange->alternatives.size() == 1);
  CHECK(exchange->reason == ChoiceReason::only);
  CHECK_THROWS_WITH(check_options({.protocol = "LL"}, t), Catch::Contains("'LL'"));
}

TEST_CASE("exchanges of the same pairs have one choice, in whatever order and pieces they are listed") {
  Topology t = ring_machine(4, 10, 5);
  CollectiveCache cache(t);
  ProgramBuilder b(4);
  b.all_to_all({0, 1, 2, 3}, 1000);
  const Communication plain = b.program.communications[0];
  const auto choice = cache.choose(plain);
  CHECK(cache.choose(plain) == choice);
  Communication other = plain;
  std::reverse(other.exchanges.begin(), other.exchanges.end());
  Exchange half = other.exchanges[0];
  half.box.extent[0] /= 2;
  other.exchanges[0].box.extent[0] -= half.box.extent[0];
  other.exchanges.push_back(half);
  CHECK(cache.choose(other) == choice);
  CHECK(cache.choose(plain, {.protocol = "LL"}) != choice);
  other.exchanges.pop_back();  // fewer bytes of one pair
  const auto less = cache.choose(other);
  CHECK(less != choice);
  CHECK(less->bytes < choice->bytes);
  CHECK(less->shape->phases.size() == choice->shape->phases.size());
}

TEST_CASE("send, broadcast and reduce take all latencies of their chain and the bytes once") {
  Topology t = ring_machine(5, 10, 5);
  CHECK(seconds(t, CollectiveKind::send, {0, 1}, 250'000) == Approx(5e-6 + 1e6 / 10e9));
  CHECK(seconds(t, CollectiveKind::broadcast, {0, 1, 2, 3}, 250'000) == Approx(3 * 5e-6 + 1e6 / 10e9));
  CHECK(seconds(t, CollectiveKind::reduce, {0, 1, 2, 3}, 250'000) == Approx(3 * 5e-6 + 1e6 / 10e9));
}

TEST_CASE("an all-to-all on all pairs of links moves each exchange alone") {
  Topology t = all_pairs(4, 10, 5);
  ProgramBuilder b(4);
  b.all_to_all({0, 1, 2, 3}, 250'000);
  CHECK(simulate(b.program, t).iteration.seconds() == Approx(5e-6 + 1e6 / 10e9));
}

TEST_CASE("an all-to-all through a switch is bound by what each device sends") {
  MachineBuilder m(4);
  VertexId s = m.add_switch("s");
  for (int d = 0; d < 4; ++d) m.link(m.device(d), s, 10);
  Topology t = m.finish();
  ProgramBuilder b(4);
  b.all_to_all({0, 1, 2, 3}, 250'000);  // three exchanges of 1 MB leave each device
  CHECK(simulate(b.program, t).iteration.seconds() == Approx(3e6 / 10e9));
  // 16 equal parts of 1 MB, of which 4 stay at home
  CHECK(SimulatedCostModel(t).collective_time(CollectiveKind::all_to_all, ids({0, 1, 2, 3}), {16'000'000}).seconds() ==
        Approx(3e6 / 10e9));
}

TEST_CASE("a ring whose edges share a link gets its part of it") {
  // 0 - 1 - 2 - 3 in a row: the edge from 3 back to 0 goes over all links, but in the other direction, so nothing is
  // shared; the ring 0, 2 over a row of four has the edges 0-1-2 and 2-1-0.
  MachineBuilder row(4);
  for (int d = 0; d < 3; ++d) row.link(row.device(d), row.device(d + 1), 10);
  Topology t = row.finish();
  CHECK(seconds(t, CollectiveKind::all_reduce, {0, 2}, 250'000) == Approx(1e6 / 10e9));
  CHECK(seconds(t, CollectiveKind::all_reduce, {0, 1, 2, 3}, 250'000) == Approx(2 * 0.75 * 1e6 / 10e9));
  // two left, two right of one link, numbered so that the ring 0-1-2-3 crosses it four times, twice in each direction
  MachineBuilder m(4);
  VertexId left = m.add_switch("left"), right = m.add_switch("right");
  m.link(m.device(0), left, 100);
  m.link(m.device(2), left, 100);
  m.link(m.device(1), right, 100);
  m.link(m.device(3), right, 100);
  m.link(left, right, 10);
  CHECK(seconds(m.finish(), CollectiveKind::all_reduce, {0, 1, 2, 3}, 250'000) == Approx(2 * 0.75 * 1e6 / 5e9));
}

TEST_CASE("data parallelism over pairs of GPUs on two nodes shares the network, over all GPUs it does not") {
  Topology t = load_topology("summit", {.nodes = 2});
  const std::int64_t elements = 3'000'000;
  const double size = 4.0 * elements;
  // One ring over twelve: the narrowest link is PCIe between host and NIC, 16 GB/s; two edges of six hops cross nodes
  // (4 us each), two each of three hops cross sockets (1.5 us each) and eight are NVLinks (1.9 us): 26.2 us once around
  // the twelve edges; a piece goes twice around but for two consecutive edges, at least 1.5 + 1.9 us.
  CHECK(seconds(t, CollectiveKind::all_reduce, first(12), elements) ==
        Approx(2 * 26.2e-6 - 3.4e-6 + 2 * 11.0 / 12 * size / 16e9).epsilon(1e-9));
  // Six rings over pairs at once: each direction of the NIC port, 25 GB/s, carries six flows.
  ProgramBuilder b(12);
  for (int g = 0; g < 6; ++g) b.communicate(CollectiveKind::all_reduce, {g, g + 6}, elements);
  CHECK(simulate(b.program, t).iteration.seconds() == Approx(2 * 4e-6 + size / (25e9 / 6)).epsilon(1e-9));
}

TEST_CASE("a ring of unequal pieces takes as long as one of pieces like the largest") {
  // In each step some edge carries it, and the next step waits.
  Topology t = ring_machine(4, 10, 5);
  for (CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
    ProgramBuilder b(4);
    b.communicate(kind, {0, 1, 2, 3}, 1'000'000);
    std::vector<Participant>& of = b.program.communications[0].participants;
    for (Participant& p : of) p.piece.extent[0] = 100'000;
    of[2].piece.extent[0] = 700'000;
    CHECK(elements_moved(b.program.communications[0]) == 1'000'000);
    CHECK(elements_in_steps(b.program.communications[0]) == 2'800'000);
    CHECK(simulate(b.program, t).iteration.seconds() == Approx(3 * (5e-6 + 2.8e6 / 10e9)));
  }
}

TEST_CASE("a communication begins when the slowest of its devices has noticed what it waits for") {
  Topology t = all_pairs(2, 10, 5);
  t.specs.push_back(t.specs[t.devices[1].spec]);
  t.devices[1].spec = t.specs.size() - 1;
  t.specs.back().handover = {20'000'000};
  std::vector<double> times;
  for (const auto& devices : {std::vector<int>{0, 1}, std::vector<int>{1, 0}}) {
    ProgramBuilder b(2);
    TaskId before = b.compute(devices[0], 5);
    b.communicate(CollectiveKind::all_reduce, devices, 1000, {before});
    times.push_back(simulate(b.program, t).iteration.seconds());
  }
  CHECK(times[0] > 25e-6);
  CHECK(times[0] == Approx(times[1]));
}
