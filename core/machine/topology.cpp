#include "core/machine/topology.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>

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
  if (s.interference > 0) h = combine(h, hash_number(s.interference));  // plans from before it are still of this machine
  return hash_curve(hash_curve(h, s.matmul_efficiency), s.memory_efficiency);
}

// What makes one way to a vertex better than another with as many hops.
struct Way {
  std::int64_t latency = 0;
  double bandwidth = std::numeric_limits<double>::infinity();
  bool better_than(const Way& other) const {
    return latency != other.latency ? latency < other.latency : bandwidth > other.bandwidth;
  }
};

// Breadth-first search, one level after the other. Within a level the vertices stand in the order of their routes' link
// ids, so that the first of equally good ways is the one with the lowest ids.
class RouteTree {
 public:
  explicit RouteTree(const Topology& topology) : topology_(topology) {
    std::size_t n = topology.vertices.size();
    begin_.assign(n + 1, 0);
    for (const Link& link : topology.links) ++begin_[link.from.index() + 1];
    for (std::size_t v = 0; v < n; ++v) begin_[v + 1] += begin_[v];
    out_.resize(topology.links.size());
    std::vector<std::uint32_t> next(begin_.begin(), begin_.end() - 1);
    for (std::size_t l = 0; l < topology.links.size(); ++l)
      out_[next[topology.links[l].from.index()]++] = LinkId(static_cast<std::int64_t>(l));
    ways_.resize(n);
    hops_.resize(n);
    rank_.resize(n);
  }

  void search(VertexId source, std::span<LinkId> arriving) {
    std::fill(hops_.begin(), hops_.end(), -1);
    hops_[source.index()] = 0;
    ways_[source.index()] = Way{};
    level_.assign(1, source);
    for (int hops = 1; !level_.empty(); ++hops) {
      for (std::size_t i = 0; i < level_.size(); ++i) rank_[level_[i].index()] = static_cast<int>(i);
      next_.clear();
      bool replaced = false;
      for (VertexId u : level_)
        for (std::uint32_t k = begin_[u.index()]; k < begin_[u.index() + 1]; ++k) {
          const Link& link = topology_.links[out_[k].index()];
          std::size_t v = link.to.index();
          if (hops_[v] >= 0 && hops_[v] < hops) continue;
          const Way& before = ways_[u.index()];
          Way way{before.latency + link.latency.count, std::min(before.bandwidth, link.bandwidth.rate)};
          if (hops_[v] < 0) {
            hops_[v] = hops;
            next_.push_back(link.to);
          } else if (way.better_than(ways_[v])) {
            replaced = true;
          } else {
            continue;
          }
          ways_[v] = way;
          arriving[v] = out_[k];
        }
      if (replaced)
        std::sort(next_.begin(), next_.end(), [&](VertexId a, VertexId b) {
          LinkId x = arriving[a.index()], y = arriving[b.index()];
          return std::tuple(rank_[topology_.links[x.index()].from.index()], x) <
                 std::tuple(rank_[topology_.links[y.index()].from.index()], y);
        });
      level_.swap(next_);
    }
  }

  bool reached(VertexId v) const { return hops_[v.index()] >= 0; }

 private:
  const Topology& topology_;
  std::vector<std::uint32_t> begin_;
  std::vector<LinkId> out_;
  std::vector<Way> ways_;
  std::vector<int> hops_, rank_;
  std::vector<VertexId> level_, next_;
};

}  // namespace

std::string_view to_string(LinkKind kind) {
  constexpr std::array<std::string_view, 6> kNames = {"nvlink", "xbus", "pcie", "infiniband", "ethernet", "memory"};
  return kNames[static_cast<std::size_t>(kind)];
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
    if (l.latency.count < 0) throw_input_error("topology '{}': link {} to {}: negative latency", name, from, to);
  }
  arriving_.assign(devices.size() * vertices.size(), LinkId{});
  RouteTree tree(*this);
  for (std::size_t d = 0; d < devices.size(); ++d) {
    tree.search(devices[d].vertex, {arriving_.data() + d * vertices.size(), vertices.size()});
    for (const Device& other : devices)
      if (!tree.reached(other.vertex))
        throw_input_error("topology '{}': no way from {} to {}", name, devices[d].name, other.name);
  }
}

template <class Use>
void Topology::walk_back(DeviceId from, DeviceId to, Use use) const {
  UNITY_CHECK(arriving_.size() >= devices.size() * vertices.size(), "topology '{}' is not finished", name);
  VertexId source = device(from).vertex;
  const LinkId* arriving = arriving_.data() + from.index() * vertices.size();
  for (VertexId v = device(to).vertex; v != source;) {
    LinkId link = arriving[v.index()];
    use(link);
    v = links[link.index()].from;
  }
}

std::vector<LinkId> Topology::route(DeviceId from, DeviceId to) const {
  std::vector<LinkId> route;
  walk_back(from, to, [&](LinkId l) { route.push_back(l); });
  std::reverse(route.begin(), route.end());
  return route;
}

Picoseconds Topology::latency(DeviceId from, DeviceId to) const {
  Picoseconds sum;
  walk_back(from, to, [&](LinkId l) { sum += links[l.index()].latency; });
  return sum;
}

BytesPerSecond Topology::bandwidth(DeviceId from, DeviceId to) const {
  BytesPerSecond least{std::numeric_limits<double>::infinity()};
  walk_back(from, to, [&](LinkId l) { least = std::min(least, links[l.index()].bandwidth); });
  return least;
}

int Topology::distance_level(DeviceId a, DeviceId b) const {
  int unit = 1, level = static_cast<int>(levels.size());
  for (int i = level - 1, x = a.value, y = b.value; i >= 0 && x / unit != y / unit; --i) {
    level = i;
    unit *= levels[static_cast<std::size_t>(i)].count;
  }
  return level;
}

int Topology::threads(DeviceId id) const {
  std::size_t physical = device(id).physical;
  auto sharers = std::count_if(devices.begin(), devices.end(), [&](const Device& d) { return d.physical == physical; });
  return static_cast<int>(std::max(1.0, std::floor(physical_devices[physical].units / static_cast<double>(sharers))));
}

Topology Topology::first_devices(int n) const {
  if (n < 1 || static_cast<std::size_t>(n) > devices.size())
    throw_input_error("topology '{}': {} devices asked for, expected 1 to {}", name, n, devices.size());
  Topology cut = *this;
  for (std::size_t d = static_cast<std::size_t>(n); d < devices.size(); ++d)
    cut.vertices[devices[d].vertex.index()].device = DeviceId{};
  cut.devices.resize(static_cast<std::size_t>(n));
  cut.arriving_.resize(std::min(arriving_.size(), cut.devices.size() * vertices.size()));
  int unit = 1;
  for (std::size_t i = cut.levels.size(); i-- > 0;) {
    Level& level = cut.levels[i];
    level.count = std::min(level.count, (n + unit - 1) / unit);
    unit *= level.count;
    if (level.name == "node") cut.nodes = level.count;
  }
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
  for (const Level& l : levels) h = combine(h, static_cast<Hash>(l.count));
  return h;
}

}  // namespace unity
