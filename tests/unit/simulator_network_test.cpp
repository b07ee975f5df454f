#include <catch2/catch.hpp>

#include "simulator/network/network.h"
#include "simulator/network/playground.h"
#include "tests/support/simulator_build.h"

using namespace unity;
using namespace unity::test;
using Catch::Contains;

namespace {

// Links of 10, 6 and 3 GB/s (their numbers are 0, 2 and 4: one direction of each).
Topology chain_of_three() {
  MachineBuilder m(4);
  m.link(m.device(0), m.device(1), 10);
  m.link(m.device(1), m.device(2), 6);
  m.link(m.device(2), m.device(3), 3);
  return m.finish();
}

std::vector<double> rates(const Topology& topology, const std::vector<std::vector<LinkUse>>& flows) {
  Network network(topology);
  std::vector<FlowIndex> index;
  for (const auto& uses : flows) index.push_back(network.start(uses, 1e9, {}));
  network.settle({});
  std::vector<double> result;
  for (FlowIndex f : index) result.push_back(network.rate(f) * 1e-9);  // GB/s
  return result;
}

// Ends in microseconds.
std::vector<double> ends(const std::vector<PlaygroundFlow>& flows, const Topology& topology) {
  std::vector<double> result;
  for (Picoseconds end : simulate_flows(flows, topology)) result.push_back(static_cast<double>(end.count) / 1e6);
  return result;
}

PlaygroundFlow flow(const std::string& id, int from, int to, std::int64_t bytes, double start_us = 0,
                    std::vector<std::string> after = {}) {
  return {id, std::to_string(from), std::to_string(to), {bytes}, from_seconds(start_us * 1e-6), std::move(after)};
}

}  // namespace

TEST_CASE("a flow alone gets the narrowest of its links") {
  CHECK(rates(chain_of_three(), {{{0}, {2}, {4}}}) == std::vector<double>{3});
}

TEST_CASE("two flows on one link each get half of it") {
  CHECK(rates(chain_of_three(), {{{0}}, {{0}}}) == std::vector<double>{5, 5});
}

TEST_CASE("what a flow cannot use because of a bottleneck elsewhere goes to the others") {
  // a crosses all three links, b the first, c the first two. Link 4: a gets 3. Link 2: c gets 6 - 3 = 3. Link 0: b gets
  // 10 - 6.
  CHECK(rates(chain_of_three(), {{{0}, {2}, {4}}, {{0}}, {{0}, {2}}}) == std::vector<double>{3, 4, 3});
}

TEST_CASE("many senders into one receiver share its link") {
  MachineBuilder m(5);
  VertexId s = m.add_switch("s");
  for (int d = 0; d < 4; ++d) m.link(m.device(d), s, 10);
  m.link(m.device(4), s, 12);
  std::vector<PlaygroundFlow> flows;
  for (int d = 0; d < 4; ++d) flows.push_back(flow(std::to_string(d), d, 4, 3'000'000));
  // 12 GB/s for four: 3 GB/s each, 3 MB in 1 ms
  CHECK(ends(flows, m.finish()) == std::vector<double>(4, 1000));
}

TEST_CASE("a flow that uses a link twice counts twice there") {
  // shares: 10 / (2 + 1) for both; the first uses two thirds of the link
  std::vector<double> r = rates(chain_of_three(), {{{0, 2}}, {{0}}});
  CHECK(r[0] == Approx(10.0 / 3));
  CHECK(r[1] == Approx(10.0 / 3));
}

TEST_CASE("flows that start and end later change the rates of those that go on") {
  // One link of 10 GB/s. a: 10 MB from 0; b: 2.5 MB from 500 us. Until 500 us a has moved 5 MB; both run at 5 GB/s for
  // 500 us, when b ends and a has 2.5 MB left, which take 250 us at 10 GB/s.
  CHECK(ends({flow("a", 0, 1, 10'000'000), flow("b", 0, 1, 2'500'000, 500)}, chain_of_three()) ==
        std::vector<double>{1250, 1000});
}

TEST_CASE("the two directions of a link do not share") {
  CHECK(ends({flow("a", 0, 1, 10'000'000), flow("b", 1, 0, 10'000'000)}, chain_of_three()) ==
        std::vector<double>{1000, 1000});
}

TEST_CASE("a flow waits its latency without using bandwidth") {
  MachineBuilder m(2);
  m.link(m.device(0), m.device(1), 10, 100);
  Topology t = m.finish();
  // a drains from 100 to 1100 us; b enters at 1100 us, when a has just left
  CHECK(ends({flow("a", 0, 1, 10'000'000), flow("b", 0, 1, 10'000'000, 1000)}, t) == std::vector<double>{1100, 2100});
  CHECK(ends({flow("nothing", 0, 1, 0), flow("at home", 1, 1, 5)}, t) == std::vector<double>{100, 0});
}

TEST_CASE("a flow starts after those it waits for") {
  CHECK(ends({flow("b", 0, 1, 10'000'000, 0, {"a"}), flow("a", 0, 1, 10'000'000),
              flow("c", 2, 3, 3'000'000, 0, {"a", "b"})},
             chain_of_three()) == std::vector<double>{2000, 1000, 3000});
}

TEST_CASE("rates change only where flows share links, directly or through others") {
  Topology t = chain_of_three();
  Network network(t);
  std::vector<LinkUse> left = {{0}}, both = {{0}, {2}}, right = {{4}};
  FlowIndex a = network.start(left, 1e9, {});
  FlowIndex c = network.start(right, 1e9, {});
  network.settle({});
  std::uint32_t before = network.version(c);
  FlowIndex b = network.start(both, 1e9, {10});
  CHECK(network.settle({10}).size() == 2);
  CHECK(network.rate(a) == Approx(5e9));
  CHECK(network.rate(b) == Approx(5e9));
  CHECK(network.version(c) == before);
}

TEST_CASE("flows that cannot be simulated are refused") {
  Topology t = chain_of_three();
  CHECK_THROWS_WITH(simulate_flows({flow("a", 0, 9, 1)}, t), "flow 'a': found device 9, expected 0 to 3");
  CHECK_THROWS_WITH(simulate_flows({flow("a", 0, 1, 1, 0, {"x"})}, t), "flow 'a': after unknown flow 'x'");
  CHECK_THROWS_WITH(simulate_flows({flow("a", 0, 1, 1), flow("a", 0, 1, 1)}, t), "flow 'a' is given twice");
  CHECK_THROWS_WITH(simulate_flows({flow("a", 0, 1, 1, 0, {"b"}), flow("b", 0, 1, 1, 0, {"a"})}, t),
                    Contains("never starts"));
  CHECK_THROWS_WITH(simulate_flows({flow("a", 0, 1, -1)}, t), Contains("negative number of bytes"));
}

TEST_CASE("flows are read from JSON") {
  auto flows = flows_from_json(R"({"flows": [{"id": "a", "src": 0, "dst": "d1", "bytes": "3 MB", "start_s": 0.5},
                                   {"src": 1, "dst": 0, "bytes": 7, "after": ["a"]}]})",
                               "f.json");
  REQUIRE(flows.size() == 2);
  CHECK(flows[0].bytes.count == 3'000'000);
  CHECK(flows[0].start.count == 500'000'000'000);
  CHECK(flows[1].after == std::vector<std::string>{"a"});
  CHECK_THROWS_WITH(flows_from_json("[{", "f.json"), Contains("f.json: byte"));
  CHECK_THROWS_WITH(flows_from_json(R"({"flows": [{"srce": 1}]})", "f.json"),
                    "f.json: flow 0: unknown key 'srce' (did you mean 'src'?)");
  CHECK_THROWS_WITH(flows_from_json(R"({"flows": [{"src": 1, "dst": 2}]})", "f.json"),
                    "f.json: flow 0: key 'bytes' is missing");
}
