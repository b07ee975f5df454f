#include "core/machine/topology.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "core/base/longest_time.h"
#include "core/machine/routes.h"

namespace unity {
namespace {

Hash hash_curve(Hash h, const std::vector<EfficiencyPoint>& curve) {
  h = combine(h, curve.size());
  for (const EfficiencyPoint& p : curve) h = combine(combine(h, hash_number(p.amount)), hash_number(p.fraction));
  return h;
}

Hash hash_spec(const DeviceSpec& s) {
  Hash h = combine(hash_text(s.name), hash_text(s.kind));
  for (const auto& [dtype, rate] : s.peak) h = combine(combine(h, static_cast<Hash>(dtype)), hash_number(rate.rate));
  h = combine(h, hash_number(s.elementwise_peak.rate));
  h = combine(combine(h, hash_number(s.memory_bandwidth.rate)), static_cast<Hash>(s.memory.count));
  h = combine(h, static_cast<Hash>(s.launch_overhead.count));
  h = combine(h, static_cast<Hash>(s.handover.count));
  if (s.interference > 0)
    h = combine(h, hash_number(s.interference));  // plans from before it are still of this machine
  return hash_curve(hash_curve(h, s.matmul_efficiency), s.memory_efficiency);
}

void check_custom_route(const Topology& t, DeviceId from, DeviceId to, const std::vector<LinkId>& route) {
  VertexId at = t.device(from).vertex;
  std::set<VertexId> passed = {at};
  auto name = [&](VertexId v) -> const std::string& { return t.vertices[v.index()].name; };
  auto where = [&] {
    return fmt::format("topology '{}': route {} to {}", t.name, t.device(from).name, t.device(to).name);
  };
  for (LinkId l : route) {
    const Link& link = t.links.at(l.index());
    if (link.from != at)
      throw_input_error("{}: a link leaves {}, expected one that leaves {}", where(), name(link.from), name(at));
    if (link.to != at && !passed.insert(link.to).second)
      throw_input_error("{}: passes {} twice", where(), name(link.to));
    at = link.to;
  }
  if (at != t.device(to).vertex) throw_input_error("{}: ends at {}", where(), name(at));
}

// Of levels that say where their parts begin, but for the innermost, of devices: in one part of the level outside at
// most so many parts.
void count_parts(std::vector<Level>& levels, int devices) {
  for (std::size_t l = 0; l < levels.size(); ++l) {
    std::vector<int> begins = levels[l].begins;
    if (begins.empty()) {
      begins.resize(static_cast<std::size_t>(devices));
      std::iota(begins.begin(), begins.end(), 0);
    }
    int most = 0, count = 0;
    for (int begin : begins) {
      bool first = l > 0 && std::binary_search(levels[l - 1].begins.begin(), levels[l - 1].begins.end(), begin);
      count = first ? 1 : count + 1;
      most = std::max(most, count);
    }
    levels[l].count = most;
  }
}

}  // namespace

std::string_view to_string(LinkKind kind) {
  constexpr std::array<std::string_view, 7> kNames = {"nvlink",   "xbus",   "pcie",     "infiniband",
                                                      "ethernet", "memory", "switching"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string in_words(const std::vector<Level>& levels) {
  std::string text;
  for (const Level& level : levels)
    text += fmt::format("{}{} {}",
                        text.empty()                    ? ""
                        : levels.front().begins.empty() ? " x "
                                                        : " x up to ",
                        level.count, level.name);
  return text;
}

double efficiency_at(const std::vector<EfficiencyPoint>& curve, double amount) {
  if (curve.empty()) return 1;
  if (amount <= curve.front().amount) return curve.front().fraction;
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const EfficiencyPoint &a = curve[i - 1], &b = curve[i];
    if (amount >= b.amount) continue;
    if (a.amount <= 0) return a.fraction;
    return a.fraction + (b.fraction - a.fraction) * std::log(amount / a.amount) / std::log(b.amount / a.amount);
  }
  return curve.back().fraction;
}

void Topology::finish() {
  for (const DeviceSpec& s : specs) {
    auto positive = [&](double rate, std::string_view what) {
      if (!(rate > 0)) throw_input_error("device '{}': {} is {}, expected more than 0", s.name, what, rate);
    };
    if (!s.peak.contains(DType::f32)) throw_input_error("device '{}': no peak rate for f32", s.name);
    for (const auto& [dtype, rate] : s.peak) positive(rate.rate, fmt::format("the peak rate for {}", to_string(dtype)));
    positive(s.memory_bandwidth.rate, "the memory bandwidth");
    positive(static_cast<double>(s.memory.count), "the memory size");
  }
  for (const PhysicalDevice& p : physical_devices)
    if (!(p.units > 0)) throw_input_error("topology '{}': {} units of compute, expected more than 0", name, p.units);
  for (const Link& l : links) {
    const std::string &from = vertices.at(l.from.index()).name, &to = vertices.at(l.to.index()).name;
    if (!(l.bandwidth.rate > 0))
      throw_input_error("topology '{}': link {} to {}: bandwidth is {}, expected more than 0", name, from, to,
                        l.bandwidth.rate);
    if (l.latency.count < 0 || l.latency > kLongestLatency)
      throw_input_error("topology '{}': link {} to {}: latency is {}, expected 0 to {}", name, from, to,
                        to_string(l.latency), to_string(kLongestLatency));
  }
  for (const auto& [ends, route] : custom_routes) check_custom_route(*this, ends.first, ends.second, route);
  if (auto pair = unconnected())
    throw_input_error("topology '{}': no way from {} to {}", name, device(pair->first).name, device(pair->second).name);
  routes_ = std::make_shared<const RouteTable>(*this);
}

template <class Use>
void Topology::for_links(DeviceId from, DeviceId to, Use use) const {
  UNITY_CHECK(routes_, "topology '{}' is not finished", name);
  if (auto custom = custom_routes.find({from, to}); custom != custom_routes.end())
    for (LinkId l : custom->second) use(l);
  else
    routes_->walk_back(device(from).vertex, device(to).vertex, 0, use);
}

std::vector<LinkId> Topology::route(DeviceId from, DeviceId to, std::uint64_t label) const {
  UNITY_CHECK(routes_, "topology '{}' is not finished", name);
  if (auto custom = custom_routes.find({from, to}); custom != custom_routes.end()) return custom->second;
  std::vector<LinkId> route;
  routes_->walk_back(device(from).vertex, device(to).vertex, label, [&](LinkId l) { route.push_back(l); });
  std::reverse(route.begin(), route.end());
  return route;
}

VertexId Topology::host(DeviceId id) const {
  UNITY_CHECK(routes_, "topology '{}' is not finished", name);
  return routes_->host(device(id).vertex);
}

std::vector<LinkId> Topology::route_to_host(DeviceId id) const { return route_between(device(id).vertex, host(id)); }

std::vector<LinkId> Topology::route_from_host(DeviceId id) const { return route_between(host(id), device(id).vertex); }

std::vector<LinkId> Topology::route_between(VertexId from, VertexId to) const {
  UNITY_CHECK(from.valid() && to.valid(), "topology '{}': a device without a host", name);
  std::vector<LinkId> route;
  routes_->walk_back(from, to, 0, [&](LinkId l) { route.push_back(l); });
  std::reverse(route.begin(), route.end());
  return route;
}

Picoseconds Topology::latency(DeviceId from, DeviceId to) const {
  Picoseconds sum;
  for_links(from, to, [&](LinkId l) { sum = std::min(sum + links[l.index()].latency, kLongestTime); });
  return sum;
}

BytesPerSecond Topology::bandwidth(DeviceId from, DeviceId to) const {
  BytesPerSecond least{std::numeric_limits<double>::infinity()};
  for_links(from, to, [&](LinkId l) { least = std::min(least, links[l.index()].bandwidth); });
  return least;
}

int Topology::part(std::size_t level, DeviceId id) const {
  if (const std::vector<int>& begins = levels.at(level).begins; !begins.empty())
    return static_cast<int>(std::upper_bound(begins.begin(), begins.end(), id.value) - begins.begin()) - 1;
  int unit = 1;
  for (std::size_t i = level + 1; i < levels.size(); ++i) unit *= levels[i].count;
  return id.value / unit;
}

int Topology::distance_level(DeviceId a, DeviceId b) const {
  if (!levels.empty() && !levels.front().begins.empty()) {
    std::size_t differs = 0;
    while (differs < levels.size() && part(differs, a) == part(differs, b)) ++differs;
    return static_cast<int>(differs);
  }
  int unit = 1, level = static_cast<int>(levels.size());
  for (int i = level - 1, x = a.value, y = b.value; i >= 0 && x / unit != y / unit; --i) {
    level = i;
    unit *= levels[static_cast<std::size_t>(i)].count;
  }
  return level;
}

int PhysicalDevice::fair_share(int logical) const {
  return static_cast<int>(std::max(1.0, std::floor(units / std::max(logical, 1))));
}

int Topology::threads(DeviceId id) const {
  std::size_t physical = device(id).physical;
  auto sharers = std::count_if(devices.begin(), devices.end(), [&](const Device& d) { return d.physical == physical; });
  return physical_devices[physical].fair_share(static_cast<int>(sharers));
}

Topology Topology::first_devices(int n) const {
  if (n < 1 || static_cast<std::size_t>(n) > devices.size())
    throw_input_error("topology '{}': {} devices asked for, expected 1 to {}", name, n, devices.size());
  Topology cut = *this;
  if (!whole_nodes) cut.whole_nodes = nodes;
  for (std::size_t d = static_cast<std::size_t>(n); d < devices.size(); ++d)
    cut.vertices[devices[d].vertex.index()].device = DeviceId{};
  cut.devices.resize(static_cast<std::size_t>(n));
  std::erase_if(cut.custom_routes, [&](const auto& r) { return std::max(r.first.first, r.first.second).value >= n; });
  int unit = 1;
  for (std::size_t i = cut.levels.size(); i-- > 0;) {
    Level& level = cut.levels[i];
    level.count = std::min(level.count, (n + unit - 1) / unit);
    unit *= level.count;
    std::erase_if(level.begins, [&](int begin) { return begin >= n; });
  }
  if (!cut.levels.empty() && !cut.levels.front().begins.empty()) count_parts(cut.levels, n);
  for (const Level& level : cut.levels)
    if (level.name == "node") cut.nodes = level.count;
  return cut;
}

Hash Topology::hash() const {
  Hash h = combine(mix(vertices.size()), static_cast<Hash>(nodes));
  for (const DeviceSpec& s : specs) h = combine(h, hash_spec(s));
  for (const PhysicalDevice& p : physical_devices) h = combine(h, hash_number(p.units));
  for (const Device& d : devices) h = combine(combine(combine(h, d.spec), d.physical), d.vertex.index());
  for (const Link& l : links) {
    h = combine(combine(h, l.from.index()), l.to.index());
    h = combine(combine(h, hash_number(l.bandwidth.rate)), static_cast<Hash>(l.latency.count));
    h = combine(h, static_cast<Hash>(l.kind));
  }
  for (const Level& l : levels) {
    h = combine(h, static_cast<Hash>(l.count));
    for (int begin : l.begins) h = combine(h, static_cast<Hash>(begin));
  }
  h = combine(h, static_cast<Hash>(routing));
  for (const Vertex& v : vertices) h = combine(combine(h, v.forwards), static_cast<Hash>(v.inside.value));
  for (const auto& [ends, route] : custom_routes) {
    h = combine(combine(combine(h, ends.first.index()), ends.second.index()), route.size());
    for (LinkId l : route) h = combine(h, l.index());
  }
  return h;
}

}  // namespace unity
