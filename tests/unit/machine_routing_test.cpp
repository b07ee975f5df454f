// Equal-cost paths, custom routes, forwarding, capacities of switches, and machines of thousands of devices.
#include <map>
#include <set>
#include <thread>

#include <catch2/catch.hpp>

#include "core/machine/bisection.h"
#include "tests/support/topology_text.h"

using namespace unity;
using namespace unity::test;

namespace {

using Names = std::vector<std::string>;

// Two leaves of four devices each, joined by four spines.
std::string leaf_spine(const std::string& more) {
  return "hierarchy: {gpu: 8}\ndevice: cpu\nswitches: {machine: [leaf*2, spine*4]}\nlinks:\n"
         "  - {between: [gpu<i>, leaf<i/4>], kind: ethernet, bandwidth: 10 GB/s, latency: 1 us}\n"
         "  - {between: [leaf*, spine*], kind: ethernet, bandwidth: 10 GB/s, latency: 1 us}\n" +
         more;
}

// Three devices in a row, a - b - c.
std::string row(const std::string& more) {
  return "devices: [{name: a, device: cpu}, {name: b, device: cpu}, {name: c, device: cpu}]\n"
         "switches: {machine: [host*3]}\nlinks:\n"
         "  - {pairs: [[a, b], [b, c]], kind: nvlink, bandwidth: 50 GB/s, latency: 1 us}\n" +
         more;
}
const std::string kHosts =
    "  - {pairs: [[a, host0], [b, host1], [c, host2], [host0, host1], [host1, host2]], kind: pcie, bandwidth: 12 GB/s, "
    "latency: 1 us}\n";

std::int64_t resident_bytes() {
  std::int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 0;  // a sanitizer keeps what was freed
#else
  return resident * sysconf(_SC_PAGESIZE);
#endif
}

}  // namespace

TEST_CASE("under ECMP a label always takes the same of the equal ways, and many labels take all alike") {
  Topology t = topology_of(leaf_spine("routing: ecmp\n"));
  std::map<std::string, int> taken;
  for (std::uint64_t label = 0; label < 4000; ++label) {
    Names names = way(t, 0, 7, label);
    REQUIRE(names.size() == 4);
    CHECK(names == way(t, 0, 7, label));
    ++taken[names[1]];
  }
  REQUIRE(taken.size() == 4);
  // 1000 each; four standard deviations of a binomial with p = 1/4 are 4 sqrt(4000 * 3/16) = 110
  for (const auto& [spine, count] : taken) CHECK(std::abs(count - 1000) < 110);
  CHECK(way(t, 0, 3, 5) == Names{"leaf0", "gpu3"});
}

TEST_CASE("under ECMP pairs spread, and the same file gives the same routes") {
  Topology t = topology_of(leaf_spine("routing: ecmp\n")), again = topology_of(leaf_spine("routing: ecmp\n"));
  std::set<std::string> spines;
  for (int from = 0; from < 4; ++from)
    for (int to = 4; to < 8; ++to) {
      spines.insert(way(t, from, to)[1]);
      CHECK(way(t, from, to) == way(again, from, to));
    }
  CHECK(spines.size() == 4);
}

TEST_CASE("without ECMP all take the way with the lowest links, whatever the label") {
  Topology t = topology_of(leaf_spine(""));
  for (std::uint64_t label = 0; label < 8; ++label) CHECK(way(t, 1, 6, label)[1] == "spine0");
  CHECK(t.hash() != topology_of(leaf_spine("routing: ecmp\n")).hash());
}

TEST_CASE("ECMP does not take ways that are longer, slower or narrower") {
  const std::string links =
      "devices: [{name: a, device: cpu}, {name: b, device: cpu}]\nswitches: {machine: [s*4]}\nrouting: ecmp\nlinks:\n"
      "  - {pairs: [[a, s0], [a, s1], [a, s2], [a, s3], [s0, b], [s3, b]], kind: pcie, bandwidth: 9 GB/s, latency: 1 "
      "us}\n"
      "  - {between: [s1, b], kind: pcie, bandwidth: 9 GB/s, latency: 2 us}\n"
      "  - {between: [s2, b], kind: pcie, bandwidth: 8 GB/s, latency: 1 us}\n";
  Topology t = topology_of(links);
  std::set<std::string> taken;
  for (std::uint64_t label = 0; label < 100; ++label) taken.insert(way(t, 0, 1, label)[0]);
  CHECK(taken == std::set<std::string>{"s0", "s3"});
}

TEST_CASE("a custom route stands in place of the shortest, in both directions unless it is one way") {
  Topology t = topology_of(row(kHosts + "forwarding: all\nroutes: [{between: [a, c], via: [host0, host1, host2]}]\n"));
  CHECK(way(t, 0, 2) == Names{"host0", "host1", "host2", "c"});
  CHECK(way(t, 2, 0) == Names{"host2", "host1", "host0", "a"});
  CHECK(way(t, 0, 1) == Names{"b"});
  CHECK(t.bandwidth(DeviceId(0), DeviceId(2)).rate == 12e9);
  CHECK(t.latency(DeviceId(0), DeviceId(2)).count == 4'000'000);
  Topology one = topology_of(
      row(kHosts + "forwarding: all\nroutes: [{between: [a, c], via: [host0, host1, host2], one_way: true}]\n"));
  CHECK(way(one, 0, 2).size() == 4);
  CHECK(way(one, 2, 0) == Names{"b", "a"});
  CHECK(one.hash() != t.hash());
  CHECK(one.first_devices(2).custom_routes.empty());
}

TEST_CASE("custom routes take patterns, with what the ends captured") {
  Topology t =
      topology_of(leaf_spine("routes: [{between: [gpu<i>, gpu<j>], where: i < 4 && j >= 4, "
                             "via: [leaf0, spine<(i+j)%4>, leaf1]}]\n"));
  CHECK(way(t, 2, 5) == Names{"leaf0", "spine3", "leaf1", "gpu5"});
  CHECK(way(t, 5, 2) == Names{"leaf1", "spine3", "leaf0", "gpu2"});
  CHECK(t.custom_routes.size() == 2 * 4 * 4);
}

TEST_CASE("devices pass nothing on where there is another way, unless the file says so") {
  CHECK(way(topology_of(row(kHosts)), 0, 2) == Names{"host0", "host1", "host2", "c"});
  CHECK(way(topology_of(row(kHosts + "forwarding: all\n")), 0, 2) == Names{"b", "c"});
  CHECK(way(topology_of(row(kHosts + "forwarding: [b]\n")), 0, 2) == Names{"b", "c"});
  CHECK(way(topology_of(row(kHosts + "forwarding: [a, c]\n")), 0, 2) == Names{"host0", "host1", "host2", "c"});
  CHECK(topology_of(row(kHosts)).hash() != topology_of(row(kHosts + "forwarding: all\n")).hash());
}

TEST_CASE("without another way devices forward") {
  Topology t = topology_of(
      "hierarchy: {gpu: 5}\ndevice: cpu\n"
      "links: [{between: [gpu<i>, gpu<(i+1)%gpu>], kind: nvlink, bandwidth: 1 GB/s, latency: 1 us}]\n");
  CHECK(way(t, 0, 2) == Names{"gpu1", "gpu2"});
  CHECK(way(t, 0, 3) == Names{"gpu4", "gpu3"});
}

TEST_CASE("on DGX-1 GPUs without a link between them use another GPU; on Summit they go by the hosts") {
  // GPU 0 and 5 (socket 1, GPU 1): by 1 or by 4, each a double and a single link; the lowest links decide
  CHECK(way(load_topology("dgx-v100"), 0, 5) == Names{"node0.socket1.gpu0", "node0.socket1.gpu1"});
  CHECK(way(load_topology("summit", {.nodes = 1}), 2, 3) ==
        Names{"node0.socket0.host", "node0.socket1.host", "node0.socket1.gpu0"});
}

TEST_CASE("what goes through a switch with a capacity takes its inner link, what ends elsewhere does not") {
  Topology t = topology_of(
      "hierarchy: {gpu: 4}\ndevice: cpu\nswitches: {machine: [{name: s, capacity: 15 GB/s, latency: 0.25 us}]}\n"
      "links:\n  - {between: [gpu*, s], kind: ethernet, bandwidth: 10 GB/s, latency: 1 us}\n"
      "  - {between: [gpu0, gpu1], kind: nvlink, bandwidth: 10 GB/s, latency: 1 us}\n");
  CHECK(way(t, 0, 2) == Names{"s", "s", "gpu2"});
  CHECK(way(t, 0, 1) == Names{"gpu1"});
  LinkId inside = t.route(DeviceId(0), DeviceId(2))[1];
  CHECK(inside == t.route(DeviceId(3), DeviceId(1))[1]);  // all share it
  CHECK(t.links[inside.index()].kind == LinkKind::switching);
  CHECK(t.links[inside.index()].bandwidth.rate == 15e9);
  CHECK(t.latency(DeviceId(0), DeviceId(2)).count == 2'250'000);
  // gpu0 and gpu1 could send 20 GB/s to the others, the switch passes 15
  CHECK(bisection_bandwidth(t).rate == Approx(15e9));
}

TEST_CASE("a capacity counts when ways are compared, but not as a hop") {
  auto by = [](const std::string& capacity) {
    return way(topology_of(
                   "hierarchy: {gpu: 2}\ndevice: cpu\n"
                   "switches: {machine: [{name: limited, capacity: " +
                   capacity +
                   "}, free]}\nlinks: [{between: [gpu*, limited], kind: pcie, bandwidth: 5 GB/s, latency: 1 us},\n"
                   "        {between: [gpu*, free], kind: pcie, bandwidth: 4 GB/s, latency: 1 us}]\n"),
               0, 1)
        .front();
  };
  CHECK(by("5 GB/s") == "limited");
  CHECK(by("3 GB/s") == "free");
}

TEST_CASE("4096 devices take little memory, and an eighth of their routes an eighth of a gigabyte at most") {
  std::int64_t before = resident_bytes();
  for (const std::string name : {"fat-tree", "dgx-h100"}) {
    Topology t = load_topology(name, {.nodes = 512});
    REQUIRE(t.device_count() == 4096);
    CHECK(resident_bytes() - before < 64'000'000);
    std::size_t most = name == "fat-tree" ? 8 : 4, links = 0;
    for (int from = 0; from < 4096; from += 8) links += t.route(DeviceId(from), DeviceId((from + 2048) % 4096)).size();
    CHECK(links == most * 512);  // the other device is in another node, and another pod
    CHECK(resident_bytes() - before < 128'000'000);
  }
}

TEST_CASE("several threads find the same routes") {
  Topology shared = load_topology("dragonfly", {.nodes = 20}), alone = load_topology("dragonfly", {.nodes = 20});
  std::vector<std::vector<Names>> found(4);
  std::vector<std::thread> threads;
  for (std::vector<Names>& mine : found)
    threads.emplace_back([&shared, &mine] {
      for (int to = 0; to < 80; ++to) mine.push_back(way(shared, to / 8, to));
    });
  for (std::thread& thread : threads) thread.join();
  for (int to = 0; to < 80; ++to)
    for (const std::vector<Names>& mine : found) CHECK(mine[static_cast<std::size_t>(to)] == way(alone, to / 8, to));
}
