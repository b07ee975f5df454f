#include "simulator/collectives/shapes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <ranges>
#include <tuple>
#include <utility>

#include "core/base/longest_time.h"
#include "core/plan/collective_algorithms.h"
#include "simulator/collectives/direct_rings.h"

namespace unity {
namespace {

using Nodes = std::vector<std::vector<DeviceId>>;

// The largest sum of `count` consecutive latencies around a circle.
Picoseconds largest_run(std::span<const Picoseconds> circle, std::size_t count) {
  Picoseconds around, run, largest;
  for (Picoseconds p : circle) around += p;
  std::size_t rest = count % circle.size();
  for (std::size_t i = 0; i < rest; ++i) run += circle[i];
  for (std::size_t first = 0; first < circle.size(); ++first) {
    largest = std::max(largest, run);
    run = run - circle[first] + circle[(first + rest) % circle.size()];
  }
  return around * static_cast<std::int64_t>(count / circle.size()) + (rest ? largest : Picoseconds{});
}

// The latency of the longest way of a piece.
Picoseconds longest_way(const CollectiveShape& shape, const Pattern& pattern, std::uint32_t rounds) {
  std::vector<Picoseconds> way;
  way.reserve(pattern.edges.size());
  Picoseconds longest;
  for (const Edge& edge : pattern.edges) {
    Picoseconds before;
    for (std::uint32_t a : edge.after) before = std::max(before, way[a]);
    way.push_back(before + shape.hop_latency(edge));
    longest = std::max(longest, way.back());
  }
  if (pattern.ring == 0) return longest;
  longest = {};
  for (std::size_t first = 0; first < way.size(); first += pattern.ring)
    longest = std::max(longest, largest_run(std::span(way).subspan(first, pattern.ring), rounds));
  return longest;
}

template <class T>
const T* given(const std::optional<T>& found) {
  return found ? &*found : nullptr;
}

bool same_size(const Nodes& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [&](const auto& n) { return n.size() == nodes[0].size(); });
}

std::vector<DeviceId> in_order(const Nodes& nodes) {
  std::vector<DeviceId> devices;
  for (const auto& node : nodes) devices.insert(devices.end(), node.begin(), node.end());
  return devices;
}

// A link that serves flows as they come is done, whatever their shares, when from the start of one of them on it has
// carried that one and those that start later: the latest of these times is its end.
std::vector<CollectiveStage::Busy> busy_links(const Topology& topology, const CollectiveShape& shape,
                                              const CollectiveStage& stage) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> users;  // by link: phases
  for (std::uint32_t p = stage.first; p < stage.end; ++p)
    for (const LinkUse& use : shape.phases[p].pattern->uses) users[use.link].push_back(p);
  std::vector<CollectiveStage::Busy> busy;
  for (auto& [link, flows] : users) {
    std::stable_sort(flows.begin(), flows.end(), [&](std::uint32_t a, std::uint32_t b) {
      return shape.phases[a].latency > shape.phases[b].latency;
    });
    double seconds = 0;
    for (std::uint32_t p : flows) {
      const CollectivePhase& phase = shape.phases[p];
      for (const LinkUse& use : phase.pattern->uses)
        if (use.link == link) seconds += phase.share * use.times / topology.links[link].bandwidth.rate;
      busy.push_back({phase.latency, phase.wait + std::max(seconds, phase.drain)});
    }
  }
  // Of those that begin together, the longest.
  std::sort(busy.begin(), busy.end(),
            [](const auto& a, const auto& b) { return std::tie(a.from, b.seconds) < std::tie(b.from, a.seconds); });
  busy.erase(std::unique(busy.begin(), busy.end(), [](const auto& a, const auto& b) { return a.from == b.from; }),
             busy.end());
  return busy;
}

}  // namespace

std::size_t ShapeCache::PairHash::operator()(const std::pair<DeviceId, DeviceId>& pair) const {
  return mix(static_cast<Hash>(pair.first.value) << 32 | static_cast<Hash>(pair.second.value));
}

std::size_t ShapeCache::KeyHash::operator()(const std::vector<std::int32_t>& key) const {
  Hash h = key.size();
  for (std::int32_t k : key) h = (h ^ static_cast<std::uint32_t>(k)) * 0x100000001b3u;
  return mix(h);
}

Picoseconds CollectiveShape::hop_latency(const Edge& edge) const {
  if (!protocol) return scaled(edge.latency, stretched);
  if (!edge.hop) return {};
  Picoseconds latency = protocol->of(algorithm)->hops[static_cast<std::size_t>(*edge.hop)];
  return scaled(several_nodes && *edge.hop != HopClass::net ? std::max(latency, protocol->network_overhead) : latency,
                stretched);
}

Picoseconds CollectiveShape::base() const {
  return protocol ? scaled(protocol->of(algorithm)->base, stretched) : Picoseconds{};
}

void CollectiveShape::stretch(double factor) {
  stretched *= factor;
  for (CollectivePhase& p : phases) {
    p.share *= factor, p.drain *= factor, p.wait *= factor;
    p.latency = scaled(p.latency, factor);
  }
  for (CollectiveStage& s : stages) {
    s.latency = scaled(s.latency, factor);
    s.seconds *= factor;
    for (CollectiveStage::Busy& b : s.busy) b.from = scaled(b.from, factor), b.seconds *= factor;
  }
}

double fill_seconds(const CollectivePhase& phase, double bytes, Bytes chunk) {
  double edge = phase.share * bytes;
  if (phase.pattern->hops < 2 || chunk.count <= 0 || edge <= 0) return 0;
  double chunks = std::ceil(edge / static_cast<double>(chunk.count));
  return (phase.pattern->hops - 1) * phase.drain * bytes / chunks;
}

double bus_bandwidth_factor(CollectiveKind kind, std::size_t devices) {
  double others = static_cast<double>(devices - 1) / static_cast<double>(devices);
  switch (kind) {
    case CollectiveKind::all_reduce:
      return 2 * others;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
      return others;
    case CollectiveKind::send:
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce:
      break;
  }
  return 1;
}

Picoseconds CollectiveShape::idle_time(double bytes, Bytes chunk) const {
  Picoseconds time;
  for (const CollectiveStage& stage : stages) {
    double fill = 0;
    for (std::uint32_t p = stage.first; p < stage.end; ++p)
      fill = std::max(fill, fill_seconds(phases[p], bytes, chunk));
    if (stage.busy.empty()) time += stage.latency + bounded_seconds(stage.seconds * bytes + fill);
    Picoseconds longest;
    for (const CollectiveStage::Busy& b : stage.busy)
      longest = std::max(longest, b.from + bounded_seconds(b.seconds * bytes));
    time += longest;
  }
  return time;
}

Picoseconds CollectiveShape::least_time(const Topology& topology, double bytes) const {
  Picoseconds time;
  for (const CollectiveStage& stage : stages) {
    Picoseconds longest;
    for (const CollectiveStage::Busy& b : stage.busy.empty() ? busy_links(topology, *this, stage) : stage.busy)
      longest = std::max(longest, b.from + bounded_seconds(b.seconds * bytes));
    time += longest;
  }
  return time;
}

// Puts a shape together, stage by stage.
class ShapeMaker {
 public:
  ShapeMaker(const ShapeCache& cache, CollectiveAlgorithm algorithm, const CollectiveProtocol* protocol,
             std::span<const DeviceId> group, int chunks = 1)
      : cache_(cache),
        topology_(cache.topology()),
        library_(topology_.collectives.get()),
        group_(group),
        nodes_(by_node(topology_, group)) {
    shape_.algorithm = algorithm;
    shape_.protocol = protocol;
    shape_.several_nodes = nodes_.size() > 1;
    shape_.chunks = chunks;
  }

  std::optional<CollectiveShape> make(CollectiveKind kind) {
    if (shape_.protocol && !shape_.protocol->of(shape_.algorithm)) return std::nullopt;
    if (!add_stages(kind)) return std::nullopt;
    if (shape_.chunks > 1) go_in_chunks();
    return finish();
  }

  CollectiveShape exchange(std::span<const PairBytes> pairs) {
    double all = 0;
    for (const PairBytes& pair : pairs) all += pair.bytes;
    for (const PairBytes& pair : pairs) add(cache_.pair(pair.from, pair.to), pair.bytes / all);
    return finish();
  }

  CollectiveShape host_copy(DeviceId device, bool to_host) {
    add(cache_.pattern({'m', to_host}, group_, [&] { return host_pattern(topology_, device, to_host); }), 1);
    return finish();
  }

 private:
  bool add_stages(CollectiveKind kind) {
    using enum CollectiveAlgorithm;
    switch (shape_.algorithm) {
      case ring:
        return add_ring(kind);
      case chain:
        return add_chain(kind);
      case tree:
        return add_tree(kind);
      case hierarchical:
        return add_hierarchical(kind);
      case direct:
        return add_direct(kind);
      case in_switch:
        return add_in_switch(kind);
      case binomial:
        return add_binomial(kind);
    }
    return false;
  }

  // How often S goes around, in parts of 1/n: 0 for what a ring can not do.
  static int times_around(CollectiveKind kind) {
    if (kind == CollectiveKind::all_reduce) return 2;
    return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter ? 1 : 0;
  }

  bool add_ring(CollectiveKind kind) {
    if (times_around(kind) == 0) return false;
    // Several channels on several nodes: a ring that begins at each device of a node, so that every network port is
    // used.
    std::size_t places = nodes_[0].size();
    std::size_t rings = 1;
    if (library_ && nodes_.size() > 1 && same_size(nodes_))
      rings = std::min(places, static_cast<std::size_t>(library_->channels));
    if (!add_direct_rings(times_around(kind))) add_ring(in_order(nodes_), places, rings, times_around(kind), 1);
    return true;
  }

  // Several channels in one node whose devices are linked directly.
  bool add_direct_rings(int times) {
    if (!library_ || library_->channels < 2 || nodes_.size() > 1) return false;
    const std::vector<DeviceId>& devices = nodes_[0];
    const Pattern* pattern = cache_.pattern({'h'}, devices, [&]() -> std::optional<Pattern> {
      std::vector<std::vector<DeviceId>> rings = direct_rings(topology_, devices);
      return rings.empty() ? std::nullopt : std::optional(ring_pattern(topology_, rings));
    });
    if (!pattern) return false;
    auto n = static_cast<double>(devices.size());
    double rings = static_cast<double>(pattern->edges.size()) / n;
    add(pattern, times * (n - 1) / n / rings, static_cast<std::uint32_t>(times) * (pattern->ring - 1));
    return true;
  }

  // Around the devices, of which `places` stand in each node: S x `part` goes `times` around, in `rings` equal parts.
  void add_ring(const std::vector<DeviceId>& devices, std::size_t places, std::size_t rings, int times, double part) {
    if (rings == 1) places = 1;  // stand where they may: the order is that of the devices
    const Pattern* pattern = cache_.pattern({'r', static_cast<int>(places), static_cast<int>(rings)}, devices, [&] {
      std::vector<std::vector<DeviceId>> orders(rings);
      for (std::size_t r = 0; r < rings; ++r)
        for (std::size_t i = 0; i < devices.size(); ++i) {
          std::size_t node = i / places * places;
          orders[r].push_back(rings == 1 ? devices[i] : devices[node + (i - node + r) % places]);
        }
      return ring_pattern(topology_, orders);
    });
    auto n = static_cast<double>(devices.size());
    add(pattern, times * (n - 1) / n * part / static_cast<double>(rings),
        static_cast<std::uint32_t>(times) * static_cast<std::uint32_t>(devices.size() - 1));
  }

  const Pattern* chain(const std::vector<DeviceId>& path) {
    return cache_.pattern({'c'}, path, [&] { return chain_pattern(topology_, path); });
  }

  bool add_chain(CollectiveKind kind) {
    if (kind != CollectiveKind::broadcast && kind != CollectiveKind::reduce && kind != CollectiveKind::send)
      return false;
    std::vector<DeviceId> path(group_.begin(), group_.end());
    std::sort(path.begin() + 1, path.end());
    if (kind == CollectiveKind::reduce) std::reverse(path.begin(), path.end());
    add(chain(path), 1);
    return true;
  }

  bool add_tree(CollectiveKind kind) {
    std::vector<DeviceId> ranks(group_.begin(), group_.end());
    bool chains = library_ && library_->chains_in_nodes;
    std::size_t rotations = 0;
    if (kind == CollectiveKind::all_reduce) {
      ranks = in_order(nodes_);
      if (chains && !same_size(nodes_)) return false;
      if (chains) rotations = std::min(nodes_[0].size(), static_cast<std::size_t>(library_->channels));
    } else if (!chains && (kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce)) {
      std::sort(ranks.begin() + 1, ranks.end());
    } else {
      return false;
    }
    int n = static_cast<int>(ranks.size());
    std::vector<Tree> trees;
    if (rotations > 0) {
      trees = trees_with_chains(static_cast<int>(nodes_.size()), static_cast<int>(nodes_[0].size()),
                                static_cast<int>(rotations));
    } else {
      auto both = kind == CollectiveKind::all_reduce ? double_binary_tree(n) : rooted_double_tree(n);
      trees.assign(both.begin(), both.end());
    }
    const Pattern* pattern = cache_.pattern({'t', static_cast<int>(kind), static_cast<int>(rotations)}, ranks, [&] {
      return tree_pattern(topology_, ranks, trees, kind != CollectiveKind::broadcast, kind != CollectiveKind::reduce);
    });
    add(pattern, 1.0 / static_cast<double>(trees.size()));
    return true;
  }

  // Rings inside the nodes are of all data, those between the devices of one place of a node's part.
  bool add_hierarchical(CollectiveKind kind) {
    std::size_t places = nodes_[0].size();
    if (times_around(kind) == 0 || nodes_.size() < 2 || places < 2 || !same_size(nodes_)) return false;
    auto inside = [&] {
      for (const std::vector<DeviceId>& node : nodes_) add_ring(node, node.size(), 1, 1, 1);
      next_stage();
    };
    if (kind != CollectiveKind::all_gather) inside();
    for (std::size_t place = 0; place < places; ++place) {
      std::vector<DeviceId> peers;
      for (const std::vector<DeviceId>& node : nodes_) peers.push_back(node[place]);
      add_ring(peers, 1, 1, times_around(kind), 1.0 / static_cast<double>(places));
    }
    next_stage();
    if (kind != CollectiveKind::reduce_scatter) inside();
    return true;
  }

  bool add_direct(CollectiveKind kind) {
    if (kind == CollectiveKind::all_to_all) {
      double pair = 1.0 / static_cast<double>(group_.size() * group_.size());
      constexpr std::size_t kFlowsOfPairs = 256;
      if (group_.size() > kFlowsOfPairs) {
        for (const Pattern* pattern : cache_.lumps(group_)) add(pattern, pair);
        return true;
      }
      for (DeviceId a : group_)
        for (DeviceId b : group_)
          if (a != b) add(cache_.pair(a, b), pair);
      return true;
    }
    bool all = times_around(kind) > 0;
    Ends ends = all ? Ends::all : kind == CollectiveKind::reduce ? Ends::to_first : Ends::from_first;
    const Pattern* pattern =
        cache_.pattern({'d', static_cast<int>(ends)}, group_, [&] { return direct_pattern(topology_, group_, ends); });
    for (int i = 0; i < std::max(1, times_around(kind)); ++i) {
      add(pattern, all ? 1.0 / static_cast<double>(group_.size()) : 1);
      next_stage();
    }
    return true;
  }

  bool add_in_switch(CollectiveKind kind) {
    if (kind != CollectiveKind::all_reduce || !same_size(nodes_)) return false;
    const Pattern* pattern = cache_.pattern({'s', static_cast<int>(nodes_[0].size())}, in_order(nodes_),
                                            [&] { return in_switch_pattern(topology_, nodes_); });
    if (!pattern) return false;
    add(pattern, 0.5 / static_cast<double>(nodes_[0].size()));
    return true;
  }

  bool add_binomial(CollectiveKind kind) {
    const bool up = kind == CollectiveKind::reduce || kind == CollectiveKind::all_reduce;
    const bool down = kind == CollectiveKind::broadcast || kind == CollectiveKind::all_reduce;
    if (!up && !down) return false;
    const std::vector<std::size_t> distances = binomial_distances(group_.size());
    const std::vector<DeviceId> order = algorithm_order(kind, group_);
    auto add_round = [&](std::size_t distance, bool upwards) {
      add(cache_.pattern({'b', static_cast<int>(distance), upwards}, order,
                         [&] { return binomial_round(topology_, order, distance, upwards); }),
          1);
      next_stage();
    };
    if (up)
      for (std::size_t d : distances | std::views::reverse) add_round(d, true);
    if (down)
      for (std::size_t d : distances) add_round(d, false);
    return true;
  }

  void next_stage() { ++stage_; }

  // Stage s works on chunk i in round s + i: all that is done in a round becomes a stage.
  void go_in_chunks() {
    std::vector<CollectivePhase> whole = std::move(shape_.phases);
    std::uint32_t stages = whole.back().stage + 1, chunks = static_cast<std::uint32_t>(shape_.chunks);
    shape_.phases.clear();
    for (std::uint32_t round = 0; round + 1 < stages + chunks; ++round)
      for (const CollectivePhase& one : whole) {
        if (round < one.stage || round - one.stage >= chunks) continue;
        CollectivePhase& phase = shape_.phases.emplace_back(one);
        phase.stage = round;
        phase.share /= chunks, phase.drain /= chunks, phase.wait /= chunks;
      }
  }

  // A flow of which each unit carries `share` of S.
  void add(const Pattern* pattern, double share, std::uint32_t rounds = 0) {
    CollectivePhase phase{pattern, stage_, rounds, share, 0, 0, {}};
    double raw = 0, usable = 0;  // seconds for one byte of each unit
    for (const LinkUse& use : pattern->uses) {
      const Link& link = topology_.links[use.link];
      double seconds = use.times / link.bandwidth.rate;
      raw = std::max(raw, seconds);
      if (library_)
        usable = std::max(usable, seconds / library_->link_efficiency[static_cast<std::size_t>(class_of(link.kind))]);
    }
    if (shape_.protocol)
      phase.share *= usable / raw / at_nodes(shape_.protocol->of(shape_.algorithm)->efficiency, nodes_.size());
    phase.drain = phase.share * raw;
    phase.latency = shape_.base();
    if (shape_.protocol) {
      double limit = library_->limit(shape_.algorithm, *shape_.protocol, nodes_.size());
      phase.wait = std::max(0.0, pattern->sent * share / limit - phase.drain);
    }
    phase.latency += longest_way(shape_, *pattern, rounds);
    shape_.phases.push_back(phase);
  }

  // Of the stage at hand.
  double& load_on(std::uint32_t link) {
    if (loads_.empty()) loads_.resize(topology_.links.size(), 0);
    if (loads_[link] == 0) loaded_.push_back(link);
    return loads_[link];
  }

  CollectiveShape finish() {
    std::vector<CollectivePhase>& phases = shape_.phases;
    for (std::uint32_t p = 0; p < phases.size();) {
      CollectiveStage stage;
      stage.first = p;
      if (auto end = end_of_equal(stage.first)) {  // as the one before
        stage = shape_.stages.back();
        stage.first = p, stage.end = p = *end;
        shape_.stages.push_back(stage);
        continue;
      }
      double wait = 0;
      for (; p < phases.size() && phases[p].stage == phases[stage.first].stage; ++p) {
        stage.latency = std::max(stage.latency, phases[p].latency);
        stage.seconds = std::max(stage.seconds, phases[p].drain);
        wait = std::max(wait, phases[p].wait);
        for (const LinkUse& use : phases[p].pattern->uses) load_on(use.link) += phases[p].share * use.times;
      }
      stage.end = p;
      for (std::uint32_t link : loaded_)
        if (double bytes = std::exchange(loads_[link], 0); stage.end - stage.first > 1)
          stage.seconds = std::max(stage.seconds, bytes / topology_.links[link].bandwidth.rate);
      loaded_.clear();
      stage.seconds += wait;
      if (shape_.chunks > 1) stage.busy = busy_links(topology_, shape_, stage);
      shape_.stages.push_back(std::move(stage));
    }
    return std::move(shape_);
  }

  // Where the stage that begins at phase `first` has the same flows as the last of shape_.stages: its end.
  std::optional<std::uint32_t> end_of_equal(std::uint32_t first) const {
    if (shape_.stages.empty()) return std::nullopt;
    const CollectiveStage& before = shape_.stages.back();
    std::uint32_t end = first + before.end - before.first;
    const std::vector<CollectivePhase>& phases = shape_.phases;
    if (end > phases.size() || phases[end - 1].stage != phases[first].stage) return std::nullopt;
    if (end < phases.size() && phases[end].stage == phases[first].stage) return std::nullopt;
    for (std::uint32_t p = first; p < end; ++p) {
      const CollectivePhase &one = phases[p], &other = phases[before.first + p - first];
      if (std::tie(one.pattern, one.share, one.drain, one.wait, one.latency) !=
          std::tie(other.pattern, other.share, other.drain, other.wait, other.latency))
        return std::nullopt;
    }
    return end;
  }

  const ShapeCache& cache_;
  const Topology& topology_;
  const CollectiveLibrary* library_;
  std::span<const DeviceId> group_;
  Nodes nodes_;
  CollectiveShape shape_;
  std::uint32_t stage_ = 0;
  std::vector<double> loads_;          // by link
  std::vector<std::uint32_t> loaded_;  // links
};

template <class Make>
const Pattern* ShapeCache::pattern(std::vector<std::int32_t> key, std::span<const DeviceId> devices, Make make) const {
  for (DeviceId d : devices) key.push_back(d.value);
  return given(*patterns_.get(key, [&] { return std::make_shared<const std::optional<Pattern>>(make()); }));
}

const Pattern* ShapeCache::pair(DeviceId from, DeviceId to) const {
  return pairs_.get(std::pair(from, to), [&] {
    const std::vector<DeviceId> path = {from, to};
    return pattern({'c'}, path, [&] { return chain_pattern(topology_, path); });
  });
}

const CollectiveShape* ShapeCache::find(CollectiveKind kind, CollectiveAlgorithm algorithm,
                                        const CollectiveProtocol* protocol, std::span<const DeviceId> group,
                                        int chunks) const {
  UNITY_CHECK(group.size() > 1, "a collective of {} devices", group.size());
  UNITY_CHECK(chunks == 1 || (chunks > 1 && algorithm == CollectiveAlgorithm::hierarchical), "{} in {} chunks",
              to_string(algorithm), chunks);
  UNITY_CHECK(!protocol || topology_.collectives, "a protocol on a topology without a library");
  int number = protocol ? static_cast<int>(protocol - topology_.collectives->protocols.data()) : -1;
  std::vector<std::int32_t> key = {static_cast<int>(kind), static_cast<int>(algorithm), number, chunks};
  for (DeviceId d : group) key.push_back(d.value);
  return given(*shapes_.get(key, [&] {
    return std::make_shared<const std::optional<CollectiveShape>>(
        ShapeMaker(*this, algorithm, protocol, group, chunks).make(kind));
  }));
}

std::vector<const Pattern*> ShapeCache::lumps(std::span<const DeviceId> group) const {
  std::vector<Pattern> made;  // when one is missing
  std::vector<const Pattern*> kept;
  auto take = [&](std::size_t i) -> std::optional<Pattern> {
    if (made.empty()) made = lumped_pairs(topology_, group);
    return i < made.size() ? std::optional(std::move(made[i])) : std::nullopt;
  };
  // One after the other, until there is none.
  for (std::size_t i = 0;; ++i) {
    const Pattern* next = pattern({'l', static_cast<int>(i)}, group, [&] { return take(i); });
    if (!next) return kept;
    kept.push_back(next);
  }
}

const CollectiveShape* ShapeCache::host_copy(DeviceId device, bool to_host) const {
  if (!topology_.host(device).valid()) return nullptr;
  std::vector<DeviceId> group = {device};
  return given(*shapes_.get(std::vector<std::int32_t>{device.value, to_host}, [&] {
    return std::make_shared<const std::optional<CollectiveShape>>(
        ShapeMaker(*this, CollectiveAlgorithm::direct, nullptr, group).host_copy(device, to_host));
  }));
}

CollectiveShape ShapeCache::exchange(const CollectiveProtocol* protocol, std::span<const PairBytes> pairs) const {
  std::vector<DeviceId> group;
  for (const PairBytes& pair : pairs) group.insert(group.end(), {pair.from, pair.to});
  std::sort(group.begin(), group.end());
  group.erase(std::unique(group.begin(), group.end()), group.end());
  return ShapeMaker(*this, CollectiveAlgorithm::direct, protocol, group).exchange(pairs);
}

}  // namespace unity
