#include "simulator/collectives/patterns.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace unity {
namespace {

class Builder {
 public:
  explicit Builder(const Topology& topology) : topology_(topology) {}

  // The edge's number.
  std::uint32_t add(DeviceId from, DeviceId to, std::vector<std::uint32_t> after = {}) {
    return add(from, to, topology_.route(from, to), 1, std::move(after));
  }
  std::uint32_t add(DeviceId from, DeviceId to, std::span<const LinkId> links, std::uint32_t weight,
                    std::vector<std::uint32_t> after) {
    Edge edge{from, to, {}, {}, {}, weight, std::move(after)};
    HopClass hop = HopClass::nvlink;
    for (LinkId l : links) {
      const Link& link = topology_.links[l.index()];
      edge.uses.push_back({static_cast<std::uint32_t>(l.value), 1});
      edge.latency += link.latency;
      hop = std::max(hop, class_of(link.kind));
    }
    if (to.valid()) edge.hop = hop;
    pattern_.edges.push_back(std::move(edge));
    return static_cast<std::uint32_t>(pattern_.edges.size() - 1);
  }

  Pattern finish(std::uint32_t ring = 0) {
    pattern_.ring = ring;
    std::map<std::uint32_t, std::uint32_t> times;
    std::map<DeviceId, double> sent;
    std::vector<std::uint32_t> hops;
    for (const Edge& edge : pattern_.edges) {
      for (const LinkUse& use : edge.uses) times[use.link] += edge.weight;
      if (edge.from.valid()) sent[edge.from] += edge.weight;
      std::uint32_t before = 0;
      for (std::uint32_t a : edge.after) before = std::max(before, hops[a]);
      hops.push_back(before + 1);
    }
    for (const auto& [link, count] : times) pattern_.uses.push_back({link, count});
    for (const auto& [device, units] : sent) pattern_.sent = std::max(pattern_.sent, units);
    if (ring == 0)
      for (std::uint32_t h : hops) pattern_.hops = std::max(pattern_.hops, h);
    return std::move(pattern_);
  }

  // By rank: edges.
  using Arrivals = std::vector<std::vector<std::uint32_t>>;
  // Adds the edges up and down a tree. `arrived`: over which edges came what a rank adds or, at the root, hands down;
  // returns the same of the result.
  Arrivals tree(std::span<const DeviceId> group, const Tree& tree, bool up, bool down, Arrivals arrived) {
    std::vector<int> order = top_down(tree);
    auto at = [](int rank) { return static_cast<std::size_t>(rank); };
    if (up)
      for (std::size_t i = order.size(); i-- > 1;) {
        int rank = order[i], parent = tree[at(rank)];
        arrived[at(parent)].push_back(add(group[at(rank)], group[at(parent)], arrived[at(rank)]));
      }
    if (down)
      for (std::size_t i = 1; i < order.size(); ++i) {
        int rank = order[i], parent = tree[at(rank)];
        arrived[at(rank)] = {add(group[at(parent)], group[at(rank)], arrived[at(parent)])};
      }
    return arrived;
  }

 private:
  const Topology& topology_;
  Pattern pattern_;
};

// The switch that is the only vertex between any two of the devices, if there is one.
std::optional<VertexId> common_switch(const Topology& topology, std::span<const DeviceId> devices) {
  std::optional<VertexId> common;
  for (DeviceId a : devices) {
    DeviceId b = devices[a == devices[0] ? 1 : 0];
    for (auto [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      std::vector<LinkId> route = topology.route(from, to);
      if (route.size() != 2) return std::nullopt;
      VertexId middle = topology.links[route[0].index()].to;
      if (topology.vertices[middle.index()].device.valid() || (common && *common != middle)) return std::nullopt;
      common = middle;
    }
  }
  return common;
}

}  // namespace

Pattern ring_pattern(const Topology& topology, std::span<const std::vector<DeviceId>> orders) {
  Builder builder(topology);
  for (const std::vector<DeviceId>& order : orders)
    for (std::size_t i = 0; i < order.size(); ++i) builder.add(order[i], order[(i + 1) % order.size()]);
  return builder.finish(static_cast<std::uint32_t>(orders[0].size()));
}

Pattern host_pattern(const Topology& topology, DeviceId device, bool to_host) {
  Builder b(topology);
  if (to_host)
    b.add(device, {}, topology.route_to_host(device), 1, {});
  else
    b.add({}, device, topology.route_from_host(device), 1, {});
  return b.finish();
}

Pattern chain_pattern(const Topology& topology, std::span<const DeviceId> path) {
  Builder builder(topology);
  std::vector<std::uint32_t> before;
  for (std::size_t i = 1; i < path.size(); ++i) before = {builder.add(path[i - 1], path[i], before)};
  return builder.finish();
}

Pattern tree_pattern(const Topology& topology, std::span<const DeviceId> group, std::span<const Tree> trees, bool up,
                     bool down) {
  Builder builder(topology);
  for (const Tree& tree : trees) builder.tree(group, tree, up, down, Builder::Arrivals(tree.size()));
  return builder.finish();
}

Pattern binomial_round(const Topology& topology, std::span<const DeviceId> group, std::size_t distance, bool up) {
  Builder builder(topology);
  for (std::size_t i = 0; i + distance < group.size(); i += 2 * distance)
    up ? builder.add(group[i + distance], group[i]) : builder.add(group[i], group[i + distance]);
  return builder.finish();
}

Pattern direct_pattern(const Topology& topology, std::span<const DeviceId> group, Ends ends) {
  Builder builder(topology);
  for (std::size_t a = 0; a < group.size(); ++a)
    for (std::size_t b = 0; b < group.size(); ++b)
      if (a != b && (ends == Ends::all || (ends == Ends::from_first ? a : b) == 0)) builder.add(group[a], group[b]);
  return builder.finish();
}

std::vector<Pattern> lumped_pairs(const Topology& topology, std::span<const DeviceId> group) {
  struct Lump {
    Edge edge;
    std::vector<std::uint32_t> times, sent;  // by link, by device of the group
  };
  std::map<std::tuple<Picoseconds, double, HopClass>, Lump> lumps;
  for (std::size_t a = 0; a < group.size(); ++a)
    for (DeviceId b : group) {
      if (group[a] == b) continue;
      std::vector<LinkId> route = topology.route(group[a], b);
      Edge edge{group[a], b, {}, {}, HopClass::nvlink, 1, {}};
      double least = 0;  // seconds for a byte
      for (LinkId l : route) {
        const Link& link = topology.links[l.index()];
        edge.latency += link.latency;
        edge.hop = std::max(*edge.hop, class_of(link.kind));
        least = std::max(least, 1 / link.bandwidth.rate);
      }
      auto [found, fresh] = lumps.try_emplace({edge.latency, least, *edge.hop});
      Lump& lump = found->second;
      if (fresh) {
        lump.edge = std::move(edge);
        lump.times.resize(topology.links.size());
        lump.sent.resize(group.size());
      }
      for (LinkId l : route) ++lump.times[l.index()];
      ++lump.sent[a];
    }
  std::vector<Pattern> patterns;
  for (auto& [way, lump] : lumps) {
    Pattern& pattern = patterns.emplace_back();
    pattern.lumped = true;
    pattern.edges.push_back(std::move(lump.edge));
    for (std::uint32_t l = 0; l < lump.times.size(); ++l)
      if (lump.times[l] > 0) pattern.uses.push_back({l, lump.times[l]});
    pattern.sent = *std::max_element(lump.sent.begin(), lump.sent.end());
  }
  return patterns;
}

std::optional<Pattern> in_switch_pattern(const Topology& topology, std::span<const std::vector<DeviceId>> nodes) {
  Builder builder(topology);
  std::size_t places = nodes[0].size();
  if (places < 2) return std::nullopt;
  // All data, and once more the part of which the device holds the sum.
  auto weight = static_cast<std::uint32_t>(2 * (places + 1));
  auto link = [&](DeviceId a, DeviceId b, std::size_t which) { return std::vector{topology.route(a, b)[which]}; };
  Builder::Arrivals summed(nodes.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const std::vector<DeviceId>& node = nodes[n];
    if (!common_switch(topology, node)) return std::nullopt;
    for (DeviceId d : node)
      summed[n].push_back(builder.add(d, DeviceId{}, link(d, node[d == node[0] ? 1 : 0], 0), weight, {}));
  }
  Builder::Arrivals complete = nodes.size() > 1 ? Builder::Arrivals(nodes.size()) : summed;
  if (nodes.size() > 1)
    for (std::size_t place = 0; place < places; ++place) {
      std::vector<DeviceId> rail;
      for (const std::vector<DeviceId>& node : nodes) rail.push_back(node[place]);
      for (const Tree& tree : double_binary_tree(static_cast<int>(nodes.size()))) {
        Builder::Arrivals arrived = builder.tree(rail, tree, true, true, summed);
        for (std::size_t n = 0; n < nodes.size(); ++n)
          complete[n].insert(complete[n].end(), arrived[n].begin(), arrived[n].end());
      }
    }
  for (std::size_t n = 0; n < nodes.size(); ++n)
    for (DeviceId d : nodes[n])
      builder.add(DeviceId{}, d, link(nodes[n][d == nodes[n][0] ? 1 : 0], d, 1), weight, complete[n]);
  return builder.finish();
}

}  // namespace unity
