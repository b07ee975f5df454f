#include <array>
#include <map>

#include <catch2/catch.hpp>

#include "core/base/random.h"
#include "simulator/engine/event_queue.h"
#include "simulator/engine/indexed_queue.h"
#include "simulator/network/transfers.h"
#include "tests/support/simulator_build.h"

using namespace unity;
using namespace unity::test;

namespace {

std::vector<DeviceId> first(int n) {
  std::vector<DeviceId> devices;
  for (int d = 0; d < n; ++d) devices.push_back(DeviceId(d));
  return devices;
}

Picoseconds last_of(const std::vector<Picoseconds>& ends) { return *std::max_element(ends.begin(), ends.end()); }

}  // namespace

TEST_CASE("events come by time, and of equal times in the order in which they were pushed") {
  EventQueue<int> queue;
  std::multimap<std::int64_t, int> expected;  // keeps equal keys in order of insertion
  RandomKey key(7);
  for (int i = 0; i < 2000; ++i) {
    auto time = static_cast<std::int64_t>(random_below(key, static_cast<std::uint64_t>(i), 50));
    queue.push({time}, i);
    expected.emplace(time, i);
    if (i % 3 == 2) {
      CHECK(queue.next_time().count == expected.begin()->first);
      CHECK(queue.pop() == expected.begin()->second);
      expected.erase(expected.begin());
    }
  }
  for (const auto& [time, event] : expected) CHECK(queue.pop() == event);
  CHECK(queue.empty());
}

TEST_CASE("times that wait can be moved, and come in order with the lowest index first") {
  IndexedQueue queue;
  std::map<std::uint32_t, std::int64_t> expected;
  RandomKey key(8);
  for (std::uint64_t i = 0; i < 3000; ++i) {
    auto index = static_cast<std::uint32_t>(random_below(key, 2 * i, 40));
    auto time = static_cast<std::int64_t>(random_below(key, 2 * i + 1, 100));
    queue.set(index, {time});
    expected[index] = time;
    if (i % 4 != 3) continue;
    auto least = std::min_element(expected.begin(), expected.end(),
                                  [](const auto& a, const auto& b) { return a.second < b.second; });
    CHECK(queue.next_time().count == least->second);
    CHECK(queue.pop() == least->first);
    expected.erase(least);
  }
  while (!expected.empty()) expected.erase(queue.pop());
  CHECK(queue.empty());
}

TEST_CASE("a ring all-reduce step by step takes the closed form on an idle uniform machine") {
  for (int n : {2, 3, 5, 8}) {
    // 2(n-1) steps of latency a and 1/n of the bytes: 5 us + 8,400,000 / n bytes at 10 GB/s
    std::int64_t expected = 2 * (n - 1) * (5'000'000 + 840'000'000 / n);
    Topology t = ring_machine(n, 10, 5);
    std::vector<Picoseconds> ends = simulate_transfers(ring_all_reduce(t, first(n), {8'400'000}), t);
    CHECK(ends.size() == static_cast<std::size_t>(2 * (n - 1) * n));
    CHECK(last_of(ends).count == expected);
  }
}

TEST_CASE("in a ring with one slow edge every step waits for it") {
  // Three devices, edges of 10, 10 and 1 GB/s; parts of 1 MB: 100, 100 and 1000 us. The slow edge sends its four steps
  // one after the other, to 4000 us; its last but one part, there at 3000, needs 100 us more on the next edge.
  MachineBuilder m(3);
  m.link(m.device(0), m.device(1), 10);
  m.link(m.device(1), m.device(2), 10);
  m.link(m.device(2), m.device(0), 1);
  Topology t = m.finish();
  TransferGraph ring = ring_all_reduce(t, first(3), {3'000'000});
  std::vector<Picoseconds> ends = simulate_transfers(ring, t);
  auto end = [&](std::size_t step, std::size_t edge) { return ends[3 * step + edge].count / 1'000'000; };
  CHECK(end(0, 2) == 1000);
  CHECK(end(1, 0) == 1100);
  CHECK(end(1, 2) == 2000);
  CHECK(end(3, 2) == 4000);
  CHECK(end(3, 0) == 3100);
}

TEST_CASE("transfers may come after ones that are added later") {
  Topology t = ring_machine(3, 10);
  TransferGraph graph;
  DeviceRoutes routes(t, graph);
  TransferIndex second = 1;
  graph.add(routes(DeviceId(0), DeviceId(1)), 10e6, {&second, 1});
  graph.add(routes(DeviceId(0), DeviceId(1)), 10e6);
  CHECK(!never_starts(graph));
  std::vector<Picoseconds> ends = simulate_transfers(graph, t);
  CHECK(ends[0].count == 2'000'000'000);
  CHECK(ends[1].count == 1'000'000'000);
}

TEST_CASE("transfers that wait for one another never start") {
  Topology t = ring_machine(3, 10);
  TransferGraph graph;
  DeviceRoutes routes(t, graph);
  RouteIndex route = routes(DeviceId(0), DeviceId(1));
  TransferIndex one = 1, two = 2;
  graph.add(route, 1);
  graph.add(route, 1, {&two, 1});
  graph.add(route, 1, {&one, 1});
  graph.add(route, 1, {&two, 1});
  CHECK(never_starts(graph) == 1);
}

TEST_CASE("transfers whose latencies add up beyond the simulated clock are refused") {
  Topology t = all_pairs(2, 1, 60e6);
  TransferGraph graph;
  DeviceRoutes routes(t, graph);
  RouteIndex route = routes(DeviceId(0), DeviceId(1));
  TransferIndex last = graph.add(route, 0, {}, parse_time("2.3e6 s").value());
  // A minute each: 115,000 of them end before 9.2e6 s, and 2^63 ps are 9.22e6 s.
  for (int i = 1; i < 115'000; ++i) last = graph.add(route, 0, std::array{last});
  CHECK(simulate_transfers(graph, t).back().seconds() == Approx(9.2e6));
  for (int i = 0; i < 500; ++i) last = graph.add(route, 0, std::array{last});
  CHECK_THROWS_WITH(simulate_transfers(graph, t), Catch::Contains("an end after more than 106 days"));
}

TEST_CASE("links that limit no transfer can be left out without changing a bit of any time") {
  // With a record, which is of all links, none are left out.
  for (const char* machine : {"summit", "dgx-a100", "fat-tree-4to1", "pcie-host"}) {
    INFO(machine);
    Topology t = load_topology(machine, {.nodes = 4});
    TransferGraph graph;
    DeviceRoutes routes(t, graph);
    RandomKey key(3);
    std::uint64_t devices = t.device_count();
    for (std::uint64_t i = 0; i < 600; ++i) {
      auto from = static_cast<std::int64_t>(random_below(key, 4 * i, devices));
      auto to = static_cast<std::int64_t>(random_below(key, 4 * i + 1, devices));
      auto start = static_cast<std::int64_t>(random_below(key, 4 * i + 2, 1'000'000'000));
      graph.add(routes(DeviceId(from), DeviceId(to)),
                1e5 + static_cast<double>(random_below(key, 4 * i + 3, 3'000'000)), {}, {start});
    }
    LinkRecord record;
    CHECK(simulate_transfers(graph, t) == simulate_transfers(graph, t, &record));
  }
}
