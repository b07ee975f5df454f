#include <map>

#include <catch2/catch.hpp>

#include "core/base/random.h"
#include "simulator/network/transfers.h"
#include "tests/support/simulator_build.h"

using namespace unity;

namespace {

constexpr std::uint64_t kSeed = 20221107;

std::vector<BytesPerSecond> random_links(RandomKey key, std::size_t links) {
  std::vector<BytesPerSecond> capacities;
  for (std::size_t l = 0; l < links; ++l)
    capacities.push_back({1e9 * static_cast<double>(1 + random_below(key, l, 20))});
  return capacities;
}

std::vector<LinkUse> random_uses(RandomKey key, std::size_t links) {
  std::map<std::uint32_t, std::uint32_t> times;
  std::uint64_t hops = 1 + random_below(key, 0, 4);
  for (std::uint64_t h = 0; h < hops; ++h) ++times[static_cast<std::uint32_t>(random_below(key, 1 + h, links))];
  std::vector<LinkUse> uses;
  for (const auto& [link, count] : times) uses.push_back({link, count});
  return uses;
}

// Devices in a circle with chords, so that routes have several hops and meet.
Topology random_topology(RandomKey key, int devices) {
  test::MachineBuilder m(devices);
  auto below = [&](std::uint64_t index, int bound) {
    return static_cast<int>(random_below(key, index, static_cast<std::uint64_t>(bound)));
  };
  auto link = [&](int a, int b, std::uint64_t i) {
    m.link(m.device(a), m.device(b), 1 + below(2 * i, 12), below(2 * i + 1, 5));
  };
  std::uint64_t links = 0;
  for (int d = 0; d < devices; ++d) link(d, (d + 1) % devices, links++);
  for (std::uint64_t c = 0; c < static_cast<std::uint64_t>(devices / 3); ++c)
    link(below(1000 + c, devices / 2), devices / 2 + below(2000 + c, devices / 2), links++);
  return m.finish();
}

// Transfers between random devices with staggered starts, some after earlier ones.
TransferGraph random_transfers(RandomKey key, const Topology& topology, std::size_t count) {
  TransferGraph graph;
  DeviceRoutes routes(topology, graph);
  for (std::size_t i = 0; i < count; ++i) {
    RandomKey k = key.with(i);
    std::vector<TransferIndex> after;
    if (i > 0)
      for (std::uint64_t a = 0; a < random_below(k, 0, 3); ++a)
        after.push_back(static_cast<TransferIndex>(random_below(k, 1 + a, i)));
    DeviceId from(static_cast<std::int64_t>(random_below(k, 4, topology.device_count())));
    DeviceId to(static_cast<std::int64_t>(random_below(k, 5, topology.device_count())));
    graph.add(routes(from, to), static_cast<double>(random_below(k, 6, 5) * 700'000), after,
              {static_cast<std::int64_t>(random_below(k, 7, 20) * 50'000'000)});
  }
  return graph;
}

}  // namespace

TEST_CASE("rates are max-min fair, and the same whether flows came one by one or all at once, in any order") {
  INFO("seed " << kSeed);
  for (std::uint64_t trial = 0; trial < 300; ++trial) {
    RandomKey key = RandomKey(kSeed).with(trial);
    std::size_t links = 1 + random_below(key, 0, 12), count = 1 + random_below(key, 1, 20);
    std::vector<BytesPerSecond> capacities = random_links(key.with(1), links);
    std::vector<std::vector<LinkUse>> uses;
    for (std::size_t f = 0; f < count; ++f) uses.push_back(random_uses(key.with(2 + f), links));

    Network one_by_one(capacities), at_once(capacities), backwards(capacities);
    std::vector<FlowIndex> flows, whole, reversed;
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
    for (std::size_t i = alive.size(); i-- > 0;) reversed.push_back(backwards.start(uses[alive[i]], 1e12, {}));
    at_once.settle({});
    backwards.settle({});

    std::vector<double> load(links), fastest(links);
    for (std::size_t i = 0; i < alive.size(); ++i) {
      double rate = at_once.rate(whole[i]);
      CHECK(one_by_one.rate(flows[alive[i]]) == Approx(rate).epsilon(1e-13));
      CHECK(backwards.rate(reversed[alive.size() - 1 - i]) == rate);  // bit for bit
      for (const LinkUse& use : uses[alive[i]]) {
        load[use.link] += rate * use.times;
        fastest[use.link] = std::max(fastest[use.link], rate);
      }
    }
    // Max-min fair means: no link is overloaded, and every flow has a full link on which no other flow is faster.
    for (std::size_t l = 0; l < links; ++l) CHECK(load[l] <= capacities[l].rate * (1 + 1e-10));
    for (std::size_t i = 0; i < alive.size(); ++i) {
      bool bottleneck = false;
      for (const LinkUse& use : uses[alive[i]])
        bottleneck |= load[use.link] >= capacities[use.link].rate * (1 - 1e-10) &&
                      at_once.rate(whole[i]) >= fastest[use.link] * (1 - 1e-10);
      INFO("trial " << trial << ", flow " << alive[i]);
      CHECK(bottleneck);
    }
  }
}

TEST_CASE("k equal flows and one flow with k-fold times have the same rates and ends, bit for bit") {
  INFO("seed " << kSeed);
  for (std::uint64_t trial = 0; trial < 200; ++trial) {
    RandomKey key = RandomKey(kSeed).with(1000 + trial);
    std::size_t links = 2 + random_below(key, 0, 8), classes = 1 + random_below(key, 1, 8);
    std::vector<BytesPerSecond> capacities = random_links(key.with(1), links);
    std::vector<std::vector<LinkUse>> single, folded;
    std::vector<std::uint32_t> members;
    for (std::size_t c = 0; c < classes; ++c) {
      single.push_back(random_uses(key.with(2 + c), links));
      members.push_back(static_cast<std::uint32_t>(1 + random_below(key.with(3), c, 7)));
      folded.push_back(single.back());
      for (LinkUse& use : folded.back()) use.times *= members.back();
    }

    // Classes start one after the other; each time the members in another order than the classes.
    Network apart(capacities), together(capacities);
    std::vector<std::vector<FlowIndex>> flows(classes);
    std::vector<FlowIndex> whole;
    for (std::size_t c = 0; c < classes; ++c) {
      Picoseconds now{static_cast<std::int64_t>(1000 * c)};
      double bytes = 1e6 * static_cast<double>(1 + random_below(key.with(4), c, 50));
      for (std::uint32_t m = 0; m < members[c]; ++m) flows[c].push_back(apart.start(single[c], bytes, now));
      whole.push_back(together.start(folded[c], bytes, now));
      apart.settle(now);
      together.settle(now);
      for (std::size_t d = 0; d <= c; ++d)
        for (FlowIndex f : flows[d]) {
          REQUIRE(apart.rate(f) == together.rate(whole[d]));
          REQUIRE(apart.end(f) == together.end(whole[d]));
        }
    }
    // Then they end, the last member first.
    for (std::size_t c = 0; c < classes; ++c) {
      Picoseconds now{static_cast<std::int64_t>(1000 * (classes + c))};
      while (!flows[c].empty()) {
        apart.finish(flows[c].back());
        flows[c].pop_back();
      }
      together.finish(whole[c]);
      apart.settle(now);
      together.settle(now);
      for (std::size_t d = c + 1; d < classes; ++d)
        for (FlowIndex f : flows[d]) {
          REQUIRE(apart.rate(f) == together.rate(whole[d]));
          REQUIRE(apart.end(f) == together.end(whole[d]));
        }
    }
  }
}

TEST_CASE("links carry all bytes of the transfers, never faster than they can, and the same again when repeated") {
  INFO("seed " << kSeed);
  for (std::uint64_t trial = 0; trial < 60; ++trial) {
    RandomKey key = RandomKey(kSeed).with(2000 + trial);
    Topology topology = random_topology(key.with(0), 4 + static_cast<int>(random_below(key, 0, 12)));
    TransferGraph graph = random_transfers(key.with(1), topology, 10 + random_below(key, 1, 150));
    LinkRecord record, again;
    std::vector<Picoseconds> ends = simulate_transfers(graph, topology, &record);

    // What a link carried by its samples is what the transfers sent over it.
    std::vector<double> sent(topology.links.size()), carried(topology.links.size()), use(topology.links.size());
    std::vector<Picoseconds> since(topology.links.size());
    for (TransferIndex t = 0; t < graph.size(); ++t)
      for (const LinkUse& u : graph.links(t)) sent[u.link] += graph.bytes(t);
    for (const LinkRecord::Sample& s : record.samples) {
      carried[s.link] +=
          use[s.link] * topology.links[s.link].bandwidth.rate * (s.time.seconds() - since[s.link].seconds());
      use[s.link] = s.use;
      since[s.link] = s.time;
      CHECK(s.use <= 1 + 1e-10);
    }
    CHECK(use == std::vector<double>(topology.links.size()));  // nothing is under way at the end
    for (std::size_t l = 0; l < sent.size(); ++l) {
      CHECK(record.bytes[l] == Approx(sent[l]).epsilon(1e-12));
      CHECK(carried[l] == Approx(sent[l]).epsilon(1e-6).margin(1));  // ends are rounded up to whole picoseconds
    }

    for (TransferIndex t = 0; t < graph.size(); ++t) {
      Picoseconds earliest = graph.start(t);
      for (TransferIndex before : graph.after(t)) earliest = std::max(earliest, ends[before]);
      CHECK(ends[t] >= earliest + graph.latency(t));
    }
    CHECK(simulate_transfers(graph, topology) == ends);
    CHECK(simulate_transfers(graph, topology, &again) == ends);
    CHECK(again.bytes == record.bytes);
    REQUIRE(again.samples.size() == record.samples.size());
    for (std::size_t i = 0; i < again.samples.size(); ++i) {
      CHECK(again.samples[i].link == record.samples[i].link);
      CHECK(again.samples[i].time == record.samples[i].time);
      CHECK(again.samples[i].use == record.samples[i].use);
    }
  }
}
