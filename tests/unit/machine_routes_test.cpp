// Routes found one by one, from both ends, are those that searches from each source give.
#include <random>
#include <set>

#include <catch2/catch.hpp>

#include "core/machine/routes.h"
#include "tests/support/seed.h"
#include "tests/support/topology_text.h"

using namespace unity;
using namespace unity::test;

namespace {

std::vector<LinkId> links_of(const RouteTable& routes, VertexId from, VertexId to) {
  std::vector<LinkId> links;
  routes.walk_back(from, to, 0, [&](LinkId l) { links.push_back(l); });
  return links;
}

// How many pairs were compared. Each pair is asked for twice: what was found is kept.
std::size_t check_same_routes(const Topology& t) {
  RouteTable trees(t), pairs(t, 0);
  std::size_t compared = 0;
  for (int round = 0; round < 2; ++round)
    for (const Device& a : t.devices)
      for (const Device& b : t.devices) {
        INFO(t.name << ": " << a.name << " to " << b.name);
        REQUIRE(links_of(trees, a.vertex, b.vertex) == links_of(pairs, a.vertex, b.vertex));
        ++compared;
      }
  return compared;
}

// Devices and switches, with links of few different speeds, so that many routes are equally long.
std::string random_machine(std::mt19937_64& dice) {
  auto draw = [&](int n) { return static_cast<int>(dice() % static_cast<std::uint64_t>(n)); };
  int devices = 2 + draw(6), switches = draw(7), links = devices + switches + draw(14);
  std::string text = "devices: [";
  std::vector<std::string> names;
  for (int d = 0; d < devices; ++d) {
    names.push_back("d" + std::to_string(d));
    text += (d > 0 ? ", " : "") + std::string("{name: ") + names.back() + ", device: cpu}";
  }
  text += "]\n";
  if (switches > 0) {
    text += "switches: {machine: [s*" + std::to_string(switches) + "]}\n";
    for (int s = 0; s < switches; ++s) names.push_back("s" + std::to_string(s));
  }
  text += "links:\n";
  std::set<std::pair<int, int>> seen;
  for (int l = 0; l < links; ++l) {
    int a = l == 0 ? 0 : draw(static_cast<int>(names.size())), b = l == 0 ? 1 : draw(static_cast<int>(names.size()));
    if (a == b || !seen.insert({std::min(a, b), std::max(a, b)}).second) continue;
    text += "  - {pairs: [[" + names[static_cast<std::size_t>(a)] + ", " + names[static_cast<std::size_t>(b)] +
            "]], kind: pcie, bandwidth: " + std::to_string(1 + draw(2)) +
            " GB/s, latency: " + std::to_string(1 + draw(2)) + " us}\n";
  }
  return draw(3) == 0 ? text + "forwarding: all\n" : text;
}

}  // namespace

TEST_CASE("routes found one by one are those of whole searches on every machine that is shipped") {
  for (const std::string& name : topology_names()) check_same_routes(load_topology(name));
  check_same_routes(load_topology("summit", {.nodes = 5}));
  check_same_routes(load_topology("dgx-h100", {.nodes = 6}));
  check_same_routes(load_topology("dgx-v100", {.nodes = 3}));
}

TEST_CASE("routes found one by one are those of whole searches on random machines") {
  INFO("UNITY_TEST_SEED=" << seed_of_run());
  std::mt19937_64 dice(seed_of_run());
  std::size_t connected = 0, compared = 0;
  for (int i = 0; i < 600; ++i) {
    std::string text = random_machine(dice);
    INFO(text);
    std::optional<Topology> t;
    try {
      t = topology_of(text);
    } catch (const InputError& e) {
      REQUIRE(std::string(e.what()).find("no way from") != std::string::npos);
      continue;
    }
    ++connected;
    compared += check_same_routes(*t);
  }
  CHECK(connected > 100);
  CHECK(compared > 3000);
}

TEST_CASE("a machine of many devices gives each its routes without a tree for each") {
  Topology t = load_topology("dgx-h100", {.nodes = 600});
  RouteTable pairs(t, 0);
  auto vertex = [&](int d) { return t.device(DeviceId(d)).vertex; };
  for (int d = 0; d + 1 < 4800; ++d) {
    std::vector<LinkId> links = links_of(pairs, vertex(d), vertex(d + 1));
    REQUIRE(links.size() == (d % 8 == 7 ? 4u : 2u));
  }
}
