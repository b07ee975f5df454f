#include <cmath>

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

// Devices 0 to 3 in a row, each link with this many GB/s; the links to the right are 0, 2 and 4.
Topology row(double gigabytes_per_second, double microseconds = 0) {
  MachineBuilder m(4);
  for (int d = 0; d < 3; ++d) m.link(m.device(d), m.device(d + 1), gigabytes_per_second, microseconds);
  return m.finish();
}

// Devices around a switch, with links of these GB/s.
Topology star(const std::vector<double>& gigabytes_per_second) {
  MachineBuilder m(static_cast<int>(gigabytes_per_second.size()));
  VertexId s = m.add_switch("s");
  for (std::size_t d = 0; d < gigabytes_per_second.size(); ++d)
    m.link(m.device(static_cast<int>(d)), s, gigabytes_per_second[d]);
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

// In GB/s, up to rounding.
void check_rates(const Topology& topology, const std::vector<std::vector<LinkUse>>& flows,
                 const std::vector<double>& expected) {
  std::vector<double> found = rates(topology, flows);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(expected[i]).epsilon(1e-12));
}

// Ends in microseconds.
std::vector<double> ends(const std::vector<PlaygroundFlow>& flows, const Topology& topology) {
  std::vector<double> result;
  for (Picoseconds end : simulate_flows(flows, topology)) result.push_back(static_cast<double>(end.count) / 1e6);
  return result;
}

// Equal up to 1e-9 of the value and 3 picoseconds: each end is rounded up to a whole one.
void check_ends(const std::vector<PlaygroundFlow>& flows, const Topology& topology,
                const std::vector<double>& expected) {
  std::vector<double> found = ends(flows, topology);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("flow '" << flows[i].id << "'");
    CHECK(std::abs(found[i] - expected[i]) <= std::max(1e-9 * expected[i], 3e-6));
  }
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

TEST_CASE("many receivers of one sender share its link") {
  std::vector<PlaygroundFlow> flows;
  for (int d = 1; d < 4; ++d) flows.push_back(flow(std::to_string(d), 0, d, 3'000'000));
  check_ends(flows, star({9, 10, 10, 10}), {1000, 1000, 1000});  // 9 / 3 = 3 GB/s each
}

TEST_CASE("senders of different sizes into one receiver get faster one by one, up to their own links") {
  // 12 / 4 = 3 GB/s: 3 MB end at 1000 us; 12 / 3: 3 MB more at 1750; 12 / 2: 3 more at 2250; the last is bound by its
  // own link of 10: 3 more at 2550.
  check_ends(
      {flow("a", 0, 4, 3'000'000), flow("b", 1, 4, 6'000'000), flow("c", 2, 4, 9'000'000), flow("d", 3, 4, 12'000'000)},
      star({10, 10, 10, 10, 12}), {1000, 1750, 2250, 2550});
}

TEST_CASE("in a parking lot of equal links the long flow gets half of each") {
  // each link carries the long flow and one short one: 4.5 GB/s each
  check_ends({flow("long", 0, 3, 9'000'000), flow("a", 0, 1, 9'000'000), flow("b", 1, 2, 9'000'000),
              flow("c", 2, 3, 9'000'000)},
             row(9), {2000, 2000, 2000, 2000});
}

TEST_CASE("in a parking lot that fills up the long flow gets what the fullest link gives") {
  // links of 12 with 1, 2 and 3 short flows: the last gives 12 / 4 = 3; the one before (12 - 3) / 2; the first 12 - 3
  check_rates(row(12), {{{0}, {2}, {4}}, {{0}}, {{2}}, {{2}}, {{4}}, {{4}}, {{4}}}, {3, 9, 4.5, 4.5, 3, 3, 3});
}

TEST_CASE("a slow sender leaves the rest of the receiver's link to a fast one") {
  check_ends({flow("fast", 0, 2, 7'000'000), flow("slow", 1, 2, 2'000'000)}, star({10, 2, 9}), {1000, 1000});
}

TEST_CASE("bottlenecks at senders and receivers are found in the order of their shares") {
  // Link 2d leads from device d to the switch, 2d+1 back. Device 1 sends two flows: 4 / 2 = 2 each. Receiver 4 then has
  // 5 - 2 = 3 for the one from 2; the one from 0 is bound by its own link, 4, as receiver 3 has 9 - 2 = 7.
  check_rates(star({4, 4, 4, 9, 5}), {{{0}, {7}}, {{2}, {7}}, {{2}, {9}}, {{4}, {9}}}, {4, 2, 2, 3});
}

TEST_CASE("three levels of shares are filled one after the other") {
  // Link 4 (3 GB/s): a and b 1.5 each. Link 2 (6): c and d (6 - 1.5) / 2 = 2.25. Link 0 (10): e 10 - 1.5 - 2.25.
  check_rates(chain_of_three(), {{{0}, {2}, {4}}, {{4}}, {{0}, {2}}, {{2}}, {{0}}}, {1.5, 1.5, 2.25, 2.25, 6.25});
}

TEST_CASE("a flow gets faster when another ends, and slows a third that it does not meet there") {
  // a crosses 10, 6, 3; c the last, b the first. a and c 1.5 each, b 8.5, until c ends at 1000 us; then a 3 and b 7. At
  // 2000 us a has sent 1.5 + 3 MB and b 8.5 + 7 MB.
  check_ends({flow("a", 0, 3, 4'500'000), flow("b", 0, 1, 15'500'000), flow("c", 2, 3, 1'500'000)}, chain_of_three(),
             {2000, 2000, 1000});
}

TEST_CASE("flows that end at one time leave their rates together") {
  // 12 / 4 = 3 GB/s each until three of 3 MB end at 1000 us; the fourth has 3 MB left, at 12 GB/s 250 us
  check_ends(
      {flow("a", 0, 1, 3'000'000), flow("b", 0, 1, 6'000'000), flow("c", 0, 1, 3'000'000), flow("d", 0, 1, 3'000'000)},
      row(12), {1000, 1250, 1000, 1000});
}

TEST_CASE("three flows that start one after the other end as their shares say") {
  // 12 GB/s. a alone sends 6 MB to 500 us. With b 6 GB/s each to 750: a 7.5, b 1.5. With c 4 each: c's 1 MB ends at
  // 1000, a 8.5, b 2.5. 6 each: b's last 0.5 MB take 83 1/3 us, a 9. The last 3 MB of a take 250 us.
  check_ends({flow("a", 0, 1, 12'000'000), flow("b", 0, 1, 3'000'000, 500), flow("c", 0, 1, 1'000'000, 750)}, row(12),
             {1333 + 1.0 / 3, 1083 + 1.0 / 3, 1000});
}

TEST_CASE("a flow that starts when another ends does not share with it") {
  check_ends({flow("a", 0, 1, 10'000'000), flow("b", 0, 1, 10'000'000, 1000)}, row(10), {1000, 2000});
}

TEST_CASE("flows over several hops in both directions do not share") {
  check_ends({flow("there", 0, 3, 3'000'000), flow("back", 3, 0, 3'000'000)}, chain_of_three(), {1000, 1000});
}

TEST_CASE("a flow over several hops takes the time of its narrowest link") {
  check_ends({flow("a", 0, 3, 3'000'000)}, chain_of_three(), {1000});
  check_ends({flow("a", 0, 2, 3'000'000)}, chain_of_three(), {500});
}

TEST_CASE("a thousand equal flows on one link end together") {
  std::vector<PlaygroundFlow> flows;
  for (int i = 0; i < 1000; ++i) flows.push_back(flow(std::to_string(i), 0, 1, 1'000'000));
  check_ends(flows, row(10), std::vector<double>(1000, 100'000));  // 1 GB at 10 GB/s
}

TEST_CASE("the latencies of a path add up") {
  MachineBuilder m(4);
  for (int d = 0; d < 3; ++d) m.link(m.device(d), m.device(d + 1), 10, d + 1);
  check_ends({flow("a", 0, 3, 1'000'000)}, m.finish(), {1 + 2 + 3 + 100});
}

TEST_CASE("a flow shares only from the end of its latency on") {
  // a drains from 100 us, alone to 150 (0.5 MB), then both at 5 GB/s: a ends at 250, b has 0.5 MB left for 50 us
  check_ends({flow("a", 0, 1, 1'000'000), flow("b", 0, 1, 1'000'000, 50)}, row(10, 100), {250, 300});
}

TEST_CASE("nothing to send takes the latency, slows nobody, and lets others go on") {
  check_ends({flow("a", 0, 1, 10'000'000), flow("nothing", 0, 1, 0)}, row(10), {1000, 0});
  check_ends({flow("a", 0, 1, 0), flow("b", 0, 1, 0, 0, {"a"}), flow("c", 0, 1, 0, 0, {"b"})}, row(10, 100),
             {100, 200, 300});
}

TEST_CASE("each flow of a chain takes its latency and its time") {
  check_ends({flow("a", 0, 1, 1'000'000), flow("b", 0, 1, 1'000'000, 0, {"a"}), flow("c", 0, 1, 1'000'000, 0, {"b"})},
             row(10, 100), {200, 400, 600});
}

TEST_CASE("a flow of a device to itself ends when it may start") {
  check_ends({flow("a", 0, 1, 10'000'000), flow("home", 1, 1, 5'000'000, 7), flow("then", 1, 1, 1, 7, {"a"})}, row(10),
             {1000, 7, 1000});
}

TEST_CASE("a flow starts after the last of several others") {
  check_ends({flow("a", 0, 1, 10'000'000), flow("b", 1, 2, 5'000'000), flow("c", 2, 3, 10'000'000, 0, {"a", "b"})},
             row(10), {1000, 500, 2000});
}

TEST_CASE("a flow starts neither before its start nor before those it comes after") {
  check_ends({flow("a", 0, 1, 10'000'000), flow("late", 0, 1, 10'000'000, 3000, {"a"}),
              flow("early", 1, 2, 10'000'000, 200, {"a"})},
             row(10), {1000, 4000, 2000});
}

TEST_CASE("after one flow two share a link, and after both goes another") {
  // a to 1000; b and c at 5 GB/s: c's 2.5 MB end at 1500, b's last 2.5 MB at 10 GB/s at 1750; d 1000 us more
  check_ends({flow("a", 0, 1, 10'000'000), flow("b", 0, 1, 5'000'000, 0, {"a"}), flow("c", 0, 1, 2'500'000, 0, {"a"}),
              flow("d", 0, 1, 10'000'000, 0, {"b", "c"})},
             row(10), {1000, 1750, 1500, 2750});
}

TEST_CASE("ends are rounded up to the picosecond") {
  check_ends({flow("a", 0, 1, 1)}, row(10), {1e-4});
  CHECK(simulate_flows({flow("a", 0, 1, 1)}, row(3))[0].count == 334);  // 333 1/3
}

TEST_CASE("a ring of neighbours does not share, a ring of distances does") {
  // around a switch every device sends once and receives once: nothing is shared
  std::vector<PlaygroundFlow> near, far;
  for (int d = 0; d < 4; ++d) near.push_back(flow(std::to_string(d), d, (d + 1) % 4, 1'000'000));
  check_ends(near, star({10, 10, 10, 10}), {100, 100, 100, 100});
  // around a circle of four, two hops on (by lowest links 0-1-2, 1-2-3 or 1-0-3, ...) every link used carries at most
  // two
  MachineBuilder m(4);
  for (int d = 0; d < 3; ++d) m.link(m.device(d), m.device(d + 1), 10);
  for (int d = 0; d < 2; ++d) far.push_back(flow(std::to_string(d), d, d + 2, 1'000'000));
  check_ends(far, m.finish(), {200, 200});  // 0-1-2 and 1-2-3 share 1-2
}

TEST_CASE("a flow that crosses a link three times and one that crosses it once take three to one of it") {
  // shares 10 / 4 = 2.5 for both; alone the first gets 10 / 3
  CHECK(rates(chain_of_three(), {{{0, 3}}, {{0}}}) == std::vector<double>{2.5, 2.5});
  CHECK(rates(chain_of_three(), {{{0, 3}}})[0] == Approx(10.0 / 3).epsilon(1e-15));
}

TEST_CASE("a flow that crosses a narrow link twice leaves the rest of the others to those who can use it") {
  // link 4 (3 GB/s) twice: 1.5; link 0 (10) once: 8.5 left
  check_rates(chain_of_three(), {{{0, 1}, {4, 2}}, {{0}}}, {1.5, 8.5});
}

TEST_CASE("when the flow between two others ends they are alone again") {
  Topology t = chain_of_three();
  Network network(t);
  std::vector<LinkUse> left = {{0}}, both = {{0}, {2}}, right = {{2}};
  FlowIndex a = network.start(left, 1e9, {}), b = network.start(both, 1e9, {}), c = network.start(right, 1e9, {});
  network.settle({});
  CHECK(network.rate(a) == Approx(7e9));  // link 2 gives b and c 3 each
  network.finish(b);
  CHECK(network.settle({5}).size() == 2);
  CHECK(network.rate(a) == Approx(10e9));
  CHECK(network.rate(c) == Approx(6e9));
}

TEST_CASE("a flow whose end stays the same is not reported") {
  Topology t = chain_of_three();
  Network network(t);
  std::vector<LinkUse> narrow = {{0}, {4}}, wide = {{0}};
  FlowIndex a = network.start(narrow, 1e9, {});
  network.settle({});
  FlowIndex b = network.start(wide, 1e9, {});  // gets the 7 GB/s that a cannot use
  std::span<const FlowIndex> changed = network.settle({});
  CHECK(std::vector<FlowIndex>(changed.begin(), changed.end()) == std::vector<FlowIndex>{b});
  CHECK(network.rate(a) == Approx(3e9));
  CHECK(network.rate(b) == Approx(7e9));
}

TEST_CASE("links may be given by their capacities alone") {
  const BytesPerSecond capacities[] = {{10e9}, {4e9}};
  Network network(capacities);
  std::vector<LinkUse> one = {{0}}, both = {{0}, {1, 2}};
  FlowIndex a = network.start(one, 1e9, {}), b = network.start(both, 1e9, {});
  network.settle({});
  CHECK(network.rate(b) == Approx(2e9));
  CHECK(network.rate(a) == Approx(8e9));
}

TEST_CASE("a record has the bytes of each link and when its use changed") {
  // Links of 10 and 6. a alone on the first to 500 us, then 5 GB/s each: b's 2.5 MB end at 1000 us, a's last 2.5 MB at
  // 1250.
  Topology t = chain_of_three();
  LinkRecord record;
  simulate_transfers(transfers_of({flow("a", 0, 1, 10'000'000), flow("b", 0, 2, 2'500'000, 500)}, t), t, &record);
  CHECK(record.bytes == std::vector<double>{12'500'000, 0, 2'500'000, 0, 0, 0});
  std::vector<std::tuple<std::uint32_t, std::int64_t, double>> samples;
  for (const LinkRecord::Sample& s : record.samples) samples.push_back({s.link, s.time.count / 1'000'000, s.use});
  CHECK(samples == std::vector<std::tuple<std::uint32_t, std::int64_t, double>>{
                       {0, 0, 1}, {2, 500, 5.0 / 6}, {2, 1000, 0}, {0, 1250, 0}});
}

TEST_CASE("flows that cannot be simulated are refused") {
  Topology t = chain_of_three();
  CHECK_THROWS_WITH(simulate_flows({flow("a", 0, 9, 1)}, t), "flow 'a': found device 9, expected 0 to 3");
  CHECK_THROWS_WITH(simulate_flows({flow("a", 0, 1, 1, 0, {"x"})}, t), "flow 'a': comes after unknown flow 'x'");
  CHECK_THROWS_WITH(simulate_flows({flow("a", 0, 1, 1), flow("a", 0, 1, 1)}, t), "flow 'a' is given twice");
  CHECK_THROWS_WITH(simulate_flows({flow("a", 0, 1, 1, 0, {"b"}), flow("b", 0, 1, 1, 0, {"a"})}, t),
                    Contains("never starts"));
  CHECK_THROWS_WITH(simulate_flows({flow("a", 0, 1, -1)}, t), "flow 'a': found -1 bytes, expected at least 0");
}

TEST_CASE("flows are read from JSON") {
  auto flows = flows_from_json(R"({"flows": [{"id": "a", "src": 0, "dst": "d1", "bytes": "3 MB", "start_s": 0.5},
                                   {"src": 1, "dst": 0, "bytes": 7, "after": ["a", 7]}, {"id": 7, "src": 1, "dst": 0, "bytes": 7}]})",
                               "f.json");
  REQUIRE(flows.size() == 3);
  CHECK(flows[0].bytes.count == 3'000'000);
  CHECK(flows[0].start.count == 500'000'000'000);
  CHECK(flows[1].after == std::vector<std::string>{"a", "7"});
  CHECK(!flows[0].numeric_id);
  CHECK(flows[2].id == "7");
  CHECK(flows[2].numeric_id);
}

TEST_CASE("flows in JSON that are wrong are refused with file and line") {
  auto read = [](const std::string& text) {
    return simulate_flows(flows_from_json(text, "f.json"), chain_of_three(), "f.json");
  };
  const std::string head = "{\n \"flows\": [\n{\"id\": \"a\", \"src\": 0, \"dst\": 1, \"bytes\": 1},\n";
  auto second = [&](const std::string& flow) { return head + flow + "]}"; };
  CHECK_THROWS_WITH(read("[{"), Contains("f.json:1: byte 3: malformed or truncated JSON"));
  CHECK_THROWS_WITH(read("{}"), "f.json: found an object without it, expected an object with a list \"flows\"");
  CHECK_THROWS_WITH(read(second("3")), "f.json:4: flow 1: found number, expected an object");
  CHECK_THROWS_WITH(read(second("{\"id\": \"a \\\"list\\\" {[\", \"src\": 0, \"dst\": 1, \"bytes\": 1},\n3")),
                    "f.json:5: flow 2: found number, expected an object");
  CHECK_THROWS_WITH(read("{\"flow\": []}"), "f.json: unknown key 'flow' (did you mean 'flows'?)");
  CHECK_THROWS_WITH(read("{\"flows\": [], \"flows\": []}"), "f.json: key 'flows' is given twice");
  CHECK_THROWS_WITH(read(second(R"({"src": 1, "dst": 2, "bytes": 1, "src": 0})")),
                    "f.json:4: flow 1: key 'src' is given twice");
  CHECK_THROWS_WITH(read(second(R"({"srce": 1})")), "f.json:4: flow 1: unknown key 'srce' (did you mean 'src'?)");
  CHECK_THROWS_WITH(read(second(R"({"src": 1, "dst": 2})")), "f.json:4: flow 1: key 'bytes' is missing");
  CHECK_THROWS_WITH(read(second(R"({"src": [], "dst": 2, "bytes": 1})")),
                    "f.json:4: flow 1: src: found array, expected a device");
  CHECK_THROWS_WITH(read(second(R"({"src": 1, "dst": 2, "bytes": 1e30})")),
                    "f.json:4: flow 1: bytes: found 1e+30, which is out of range");
  CHECK_THROWS_WITH(read(second(R"({"src": 1, "dst": 2, "bytes": -5})")),
                    "f.json:4: flow '1': found -5 bytes, expected at least 0");
  CHECK_THROWS_WITH(read(second(R"({"src": 1, "dst": 2, "bytes": 1, "start_s": -1})")),
                    Contains("f.json:4: flow '1': found a start of -1 s, expected at least 0"));
  CHECK_THROWS_WITH(read(second(R"({"id": "a", "src": 1, "dst": 2, "bytes": 1})")),
                    "f.json:4: flow 'a' is given twice");
  CHECK_THROWS_WITH(read(second(R"({"src": 1, "dst": 2, "bytes": 1, "after": ["b"]})")),
                    "f.json:4: flow '1': comes after unknown flow 'b'");
  CHECK_THROWS_WITH(read(second(R"({"id": 5, "src": 1, "dst": 2, "bytes": 1, "after": [5]})")),
                    "f.json:4: flow '5' never starts: it waits for itself, or for a flow that does");
  CHECK_THROWS_WITH(read(second(R"({"src": 1, "dst": 4, "bytes": 1})")),
                    "f.json:4: flow '1': found device 4, expected 0 to 3");
  CHECK_THROWS_WITH(read(second(R"({"src": 1, "dst": 3, "bytes": 9e17})")),
                    Contains("an end after more than 106 days"));
}
