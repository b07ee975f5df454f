// The fabrics of topologies/: lengths of routes and bisection bandwidths, from their definitions.
#include <set>

#include <catch2/catch.hpp>

#include "core/machine/bisection.h"
#include "tests/support/topology_text.h"

using namespace unity;
using namespace unity::test;

namespace {

std::size_t hops(const Topology& t, int from, int to) { return way(t, from, to).size(); }

// Links between routers on the way from the first device of a node to that of another.
std::size_t router_hops(const Topology& t, int a, int b) {
  std::size_t routers = 0;
  for (const std::string& name : way(t, a, b)) routers += name.find("router") != std::string::npos;
  return routers - 1;
}

int around(int a, int b, int n) { return std::min((a - b + n) % n, (b - a + n) % n); }

}  // namespace

TEST_CASE("the fat tree has 4, 6 or 8 links between ports of one edge switch, one pod and two pods") {
  // 2 nodes are 16 ports: up = 2, hence switches of 4 ports, 2 ports at each edge switch and 4 in each pod
  Topology t = load_topology("fat-tree", {.nodes = 2});
  std::set<std::string> edges, cores;
  for (const Vertex& v : t.vertices) {
    if (v.name.starts_with("edge")) edges.insert(v.name);
    if (v.name.starts_with("core")) cores.insert(v.name);
  }
  CHECK(edges.size() == 8);
  CHECK(cores.size() == 4);
  CHECK(hops(t, 0, 1) == 2);  // in one node, by NVSwitch
  CHECK(hops(t, 0, 8) == 8);  // port 8 is in pod 2
  CHECK(hops(t, 7, 15) == 8);
  Topology four = load_topology("fat-tree", {.nodes = 4});  // up = 3: 3 ports at an edge switch, 9 in a pod
  CHECK(hops(four, 7, 8) == 4);                             // ports 6 to 8 are at one edge switch
  CHECK(hops(four, 3, 8) == 6);                             // ports 0 to 8 are in one pod
  CHECK(hops(four, 8, 9) == 2);                             // of one node
  CHECK(hops(four, 7, 9) == 8);
  CHECK(bisection_bandwidth(t).rate == Approx(8 * 25e9));  // every port of a half
}

TEST_CASE("a taper of four leaves a quarter of the bisection") {
  // 8 nodes are 64 ports: up = 2, 8 ports at an edge switch; the half has 4 edge switches with 2 links up each
  CHECK(bisection_bandwidth(load_topology("fat-tree-4to1", {.nodes = 8})).rate == Approx(4 * 2 * 25e9));
  CHECK(bisection_bandwidth(load_topology("fat-tree", {.nodes = 8})).rate == Approx(32 * 25e9));
}

TEST_CASE("routes in the tori are as long as the ways around their rings together") {
  Topology flat = load_topology("torus-2d", {.nodes = 30});  // 6 x 5
  for (int a = 0; a < 30; ++a)
    for (int b = 0; b < 30; ++b)
      if (a != b)
        CHECK(router_hops(flat, 4 * a, 4 * b) ==
              static_cast<std::size_t>(around(a % 6, b % 6, 6) + around(a / 6, b / 6, 5)));
  Topology cube = load_topology("torus-3d", {.nodes = 36});  // 4 x 3 x 3
  for (int a = 0; a < 36; ++a)
    for (int b = 0; b < 36; ++b)
      CHECK(hops(cube, a, b) == static_cast<std::size_t>(around(a % 4, b % 4, 4) + around(a / 4 % 3, b / 4 % 3, 3) +
                                                         around(a / 12, b / 12, 3)));
}

TEST_CASE("cutting a torus in halves cuts two links of each ring") {
  // 4 x 4: 4 rings of 25 GB/s links; 4 x 4 x 4: 16 rings of 50 GB/s links
  CHECK(bisection_bandwidth(load_topology("torus-2d", {.nodes = 16})).rate == Approx(4 * 2 * 25e9));
  CHECK(bisection_bandwidth(load_topology("torus-3d", {.nodes = 64})).rate == Approx(16 * 2 * 50e9));
}

TEST_CASE("a ring of two nodes has one link, a ring of one has none") {
  // 2 x 1 routers with 4 GPUs each: 6 NVLinks and 4 PCIe in a node, one link between the routers
  CHECK(load_topology("torus-2d", {.nodes = 2}).links.size() == 2 * (2 * (6 + 4) + 1));
  CHECK(load_topology("torus-3d", {.nodes = 8}).links.size() == 2 * 12);  // the edges of a cube
}

TEST_CASE("in the dragonfly any two routers are at most a local, a global and a local link apart") {
  Topology t = load_topology("dragonfly");  // p = 2, a = 4, 9 groups
  for (int a = 0; a < 72; ++a)
    for (int b = 0; b < 72; ++b) {
      std::size_t expected_at_most = a / 2 == b / 2 ? 0 : a / 8 == b / 8 ? 1 : 3;
      if (a != b) CHECK(router_hops(t, 4 * a, 4 * b) <= expected_at_most);
    }
  // any two groups have one link: 9 * 8 / 2
  int global = 0;
  for (const Link& l : t.links) global += l.kind == LinkKind::ethernet && l.latency.count == 800'000;
  CHECK(global == 2 * 36);
  CHECK(load_topology("dragonfly", {.nodes = 342}).device_count() == 4 * 342);  // p = 3: 2*9 * (2*9 + 1)
  CHECK(load_topology("dragonfly", {.nodes = 73}).links.back().bandwidth.rate == 100e9);
}

TEST_CASE("a rail joins the same GPUs of a unit by one leaf, other GPUs and units by a spine") {
  Topology t = load_topology("dgx-h100-rail", {.nodes = 64});
  CHECK(way(t, 3, 8 + 3) == std::vector<std::string>{"node0.nic3", "leaf3", "node1.nic3", "node1.gpu3"});
  CHECK(hops(t, 3, 8 + 4) == 6);
  CHECK(hops(t, 3, 32 * 8 + 3) == 6);
  CHECK(bisection_bandwidth(t).rate == Approx(32 * 8 * 50e9));  // every port of a unit
  CHECK_THROWS_WITH(load_topology("dgx-h100-rail", {.nodes = 257}), Catch::Contains("expected node <= 256"));
}

TEST_CASE("GPUs without a direct path share the memory of their host") {
  Topology t = load_topology("pcie-host");
  CHECK(way(t, 0, 1) == std::vector<std::string>{"node0.host", "node0.host", "node0.gpu1"});
  CHECK(bisection_bandwidth(t).rate == Approx(48e9));  // two PCIe links of 24 GB/s, below the 50 GB/s of the host
}
