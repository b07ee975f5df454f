#include <map>

#include <catch2/catch.hpp>

#include "core/base/random.h"
#include "simulator/network/network.h"

using namespace unity;

namespace {

constexpr std::uint64_t kSeed = 20221107;

Topology random_links(RandomKey key, std::size_t links) {
  Topology t;
  t.vertices = {{"a", {}}, {"b", {}}};
  for (std::size_t l = 0; l < links; ++l)
    t.links.push_back(
        {VertexId(0), VertexId(1), {1e9 * static_cast<double>(1 + random_below(key, l, 20))}, {}, LinkKind::nvlink});
  return t;
}

std::vector<LinkUse> random_uses(RandomKey key, std::size_t links) {
  std::map<std::uint32_t, std::uint32_t> times;
  std::uint64_t hops = 1 + random_below(key, 0, 4);
  for (std::uint64_t h = 0; h < hops; ++h) ++times[static_cast<std::uint32_t>(random_below(key, 1 + h, links))];
  std::vector<LinkUse> uses;
  for (const auto& [link, count] : times) uses.push_back({link, count});
  return uses;
}

}  // namespace

TEST_CASE("rates are max-min fair, and the same whether flows came one by one or all at once") {
  INFO("seed " << kSeed);
  for (std::uint64_t trial = 0; trial < 300; ++trial) {
    RandomKey key = RandomKey(kSeed).with(trial);
    std::size_t links = 1 + random_below(key, 0, 12), count = 1 + random_below(key, 1, 20);
    Topology topology = random_links(key.with(1), links);
    std::vector<std::vector<LinkUse>> uses;
    for (std::size_t f = 0; f < count; ++f) uses.push_back(random_uses(key.with(2 + f), links));

    Network one_by_one(topology), at_once(topology);
    std::vector<FlowIndex> flows, whole;
    std::vector<std::size_t> alive;
    for (std::size_t f = 0; f < count; ++f) {
      flows.push_back(one_by_one.start(uses[f], 1e12, {static_cast<std::int64_t>(f)}));
      one_by_one.settle({static_cast<std::int64_t>(f)});
    }
    for (std::size_t f = 0; f < count; ++f) {
      if (f % 3 == 1) {
        one_by_one.finish(flows[f]);
        one_by_one.settle({static_cast<std::int64_t>(count + f)});
      } else {
        alive.push_back(f);
      }
    }
    for (std::size_t f : alive) whole.push_back(at_once.start(uses[f], 1e12, {}));
    at_once.settle({});

    std::vector<double> load(links), fastest(links);
    for (std::size_t i = 0; i < alive.size(); ++i) {
      double rate = at_once.rate(whole[i]);
      CHECK(one_by_one.rate(flows[alive[i]]) == Approx(rate).epsilon(1e-9));
      for (const LinkUse& use : uses[alive[i]]) {
        load[use.link] += rate * use.times;
        fastest[use.link] = std::max(fastest[use.link], rate);
      }
    }
    // Max-min fair means: no link is overloaded, and every flow has a full link on which no other flow is faster.
    for (std::size_t l = 0; l < links; ++l) CHECK(load[l] <= topology.links[l].bandwidth.rate * (1 + 1e-8));
    for (std::size_t i = 0; i < alive.size(); ++i) {
      bool bottleneck = false;
      for (const LinkUse& use : uses[alive[i]])
        bottleneck |= load[use.link] >= topology.links[use.link].bandwidth.rate * (1 - 1e-8) &&
                      at_once.rate(whole[i]) >= fastest[use.link] * (1 - 1e-8);
      INFO("trial " << trial << ", flow " << alive[i]);
      CHECK(bottleneck);
    }
  }
}
