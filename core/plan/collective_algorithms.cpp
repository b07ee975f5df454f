#include "core/plan/collective_algorithms.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <unordered_map>

#include "core/plan/collective_key.h"

namespace unity {
namespace {

bool has_root(CollectiveKind kind) {
  return kind == CollectiveKind::send || kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce;
}

bool along_trees(CollectiveKind kind, std::size_t participants) {
  return participants > 3 &&
         (kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce || kind == CollectiveKind::all_reduce);
}

bool around_rings(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::all_gather ||
         kind == CollectiveKind::reduce_scatter;
}

// How often the data go around a ring.
int times_around(CollectiveKind kind) { return kind == CollectiveKind::all_reduce ? 2 : 1; }

// Flows that start together.
class Flows {
 public:
  explicit Flows(const Topology& topology) : topology_(topology) {}

  // One hop, of `share` of the bytes.
  Picoseconds hop(DeviceId from, DeviceId to, double share) {
    Picoseconds latency;
    for (LinkId l : topology_.route(from, to)) {
      const Link& link = topology_.links[l.index()];
      latency += link.latency;
      seconds_per_byte_ = std::max(seconds_per_byte_, (load_[l.value] += share) / link.bandwidth.rate);
    }
    return latency;
  }
  // Hops of all bytes at once.
  void hops(std::span<const DeviceId> from, std::span<const DeviceId> to) {
    for (std::size_t i = 0; i < from.size(); ++i) latency_ = std::max(latency_, hop(from[i], to[i], 1));
  }
  void chain(std::span<const DeviceId> group) {
    Picoseconds latency;
    for (std::size_t i = 1; i < group.size(); ++i) latency += hop(group[i - 1], group[i], 1);
    latency_ = std::max(latency_, latency);
  }
  // `share` of the bytes, that many times around.
  void ring(std::span<const DeviceId> group, int times, double share) {
    const double around = times * static_cast<double>(group.size() - 1) / static_cast<double>(group.size());
    Picoseconds latency;
    for (std::size_t i = 0; i < group.size(); ++i)
      latency += hop(group[i], group[(i + 1) % group.size()], around * share);
    latency_ = std::max(latency_, from_seconds(latency.seconds() * around));
  }

  Picoseconds latency() const { return latency_; }
  double seconds_per_byte() const { return seconds_per_byte_; }

 private:
  const Topology& topology_;
  std::unordered_map<std::int32_t, double> load_;  // by link: of the bytes
  Picoseconds latency_;
  double seconds_per_byte_ = 0;
};

}  // namespace

class CollectiveAlgorithms::Pricing {
 public:
  Pricing(const Topology& topology, const Group& group) : topology_(topology), kind_(group.kind), group_(group.order) {}

  // The plain one first.
  Candidates all() {
    add_plain();
    if (along_trees(kind_, group_.size())) add_tree();
    if (around_rings(kind_)) add_hierarchical();
    return std::move(candidates_);
  }

 private:
  void add_plain() {
    Flows flows(topology_);
    around_rings(kind_) ? flows.ring(group_, times_around(kind_), 1) : flows.chain(group_);
    candidates_.push_back({{}, flows.latency(), flows.seconds_per_byte()});
  }

  void add_tree() {
    const int times = times_around(kind_);
    Candidate tree{{.name = CollectiveAlgorithm::binomial}, {}, 0};
    for (std::size_t d : binomial_distances(group_.size())) {
      std::vector<DeviceId> from, to;
      for (std::size_t i = 0; i + d < group_.size(); i += 2 * d) from.push_back(group_[i]), to.push_back(group_[i + d]);
      Flows round(topology_);
      round.hops(from, to);
      tree.latency += round.latency() * times;
      tree.seconds_per_byte += round.seconds_per_byte() * times;
    }
    candidates_.push_back(tree);
  }

  void add_hierarchical() {
    const std::vector<std::vector<DeviceId>> nodes = by_node(topology_, group_);
    const std::size_t places = nodes[0].size();
    if (nodes.size() < 2 || places < 2) return;
    for (const std::vector<DeviceId>& node : nodes)
      if (node.size() != places) return;
    std::vector<bool> inside;  // by stage; else between nodes
    if (kind_ != CollectiveKind::all_gather) inside.push_back(true);
    inside.push_back(false);
    if (kind_ != CollectiveKind::reduce_scatter) inside.push_back(true);
    // What is done in a round, by which of the stages are.
    std::map<std::vector<bool>, std::pair<Picoseconds, double>> rounds;
    auto round_of = [&](const std::vector<bool>& working) {
      auto [round, fresh] = rounds.try_emplace(working);
      if (!fresh) return round->second;
      Flows flows(topology_);
      for (std::size_t stage = 0; stage < inside.size(); ++stage) {
        if (!working[stage]) continue;
        if (inside[stage]) {
          for (const std::vector<DeviceId>& node : nodes) flows.ring(node, 1, 1);
          continue;
        }
        for (std::size_t place = 0; place < places; ++place) {
          std::vector<DeviceId> peers;
          for (const std::vector<DeviceId>& node : nodes) peers.push_back(node[place]);
          flows.ring(peers, times_around(kind_), 1 / static_cast<double>(places));
        }
      }
      return round->second = {flows.latency(), flows.seconds_per_byte()};
    };
    for (std::int32_t chunks = 1; chunks <= kMostCollectiveChunks; chunks *= 2) {
      Candidate c{{CollectiveAlgorithm::hierarchical, static_cast<std::int32_t>(places), chunks}, {}, 0};
      const auto stages = static_cast<std::int32_t>(inside.size());
      for (std::int32_t round = 0; round < chunks + stages - 1; ++round) {
        std::vector<bool> working;
        for (std::int32_t stage = 0; stage < stages; ++stage)
          working.push_back(round >= stage && round - stage < chunks);
        const auto [latency, seconds_per_byte] = round_of(working);
        c.latency += latency;
        c.seconds_per_byte += seconds_per_byte / chunks;
      }
      candidates_.push_back(c);
    }
  }

  const Topology& topology_;
  CollectiveKind kind_;
  const std::vector<DeviceId>& group_;
  Candidates candidates_;
};

std::size_t CollectiveAlgorithms::GroupHash::operator()(const Group& group) const {
  Hash h = static_cast<Hash>(group.kind);
  for (DeviceId d : group.order) h = (h ^ static_cast<Hash>(d.value)) * 0x100000001b3u;
  return mix(h);
}

CommunicationAlgorithm CollectiveAlgorithms::choose(CollectiveKind kind, std::span<const DeviceId> group,
                                                    Bytes bytes) const {
  if (topology_.collectives || (!along_trees(kind, group.size()) && !(around_rings(kind) && group.size() > 3)))
    return {};
  const Group asked{kind, algorithm_order(kind, group)};
  const std::shared_ptr<const Candidates> candidates =
      known_.get(asked, [&] { return std::make_shared<const Candidates>(Pricing(topology_, asked).all()); });
  auto seconds = [&](const Candidate& c) {
    return c.latency.seconds() + c.seconds_per_byte * static_cast<double>(bytes.count);
  };
  return std::min_element(candidates->begin(), candidates->end(),
                          [&](const Candidate& a, const Candidate& b) { return seconds(a) < seconds(b); })
      ->algorithm;
}

std::vector<std::size_t> binomial_distances(std::size_t n) {
  std::vector<std::size_t> distances;
  for (std::size_t d = 1; d < n; d *= 2) distances.push_back(d);
  std::reverse(distances.begin(), distances.end());
  return distances;
}

std::vector<DeviceId> algorithm_order(CollectiveKind kind, std::span<const DeviceId> group) {
  std::vector<DeviceId> order(group.begin(), group.end());
  std::sort(order.begin() + (has_root(kind) ? 1 : 0), order.end());
  return order;
}

std::vector<std::vector<DeviceId>> by_node(const Topology& topology, std::span<const DeviceId> group) {
  std::size_t level = 0;
  while (level < topology.levels.size() && topology.levels[level].name != "node") ++level;
  const bool found = level < topology.levels.size();
  std::map<int, std::vector<DeviceId>> nodes;
  for (DeviceId d : group) nodes[found ? topology.part(level, d) : 0].push_back(d);
  std::vector<std::vector<DeviceId>> result;
  for (auto& [node, members] : nodes) {
    std::sort(members.begin(), members.end());
    result.push_back(std::move(members));
  }
  return result;
}

namespace {

// Participants are large: each is moved once.
void sort_by_device(std::span<Participant> participants) {
  if (std::ranges::is_sorted(participants, {}, &Participant::device)) return;
  std::vector<std::uint32_t> order(participants.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](std::uint32_t i) { return participants[i].device; });
  std::vector<Participant> sorted;
  sorted.reserve(order.size());
  for (std::uint32_t i : order) sorted.push_back(std::move(participants[i]));
  std::ranges::move(sorted, participants.begin());
}

}  // namespace

void choose_algorithms(Program& program, const CollectiveAlgorithms& algorithms) {
  for (Task& t : program.tasks) {
    if (t.kind != TaskKind::communicate) continue;
    Communication& c = program.communications[static_cast<std::size_t>(t.op)];
    std::vector<DeviceId> group;
    group.reserve(c.participants.size());
    for (const Participant& p : c.participants) group.push_back(p.device);
    c.algorithm = algorithms.choose(c.kind, group, {elements_in_steps(c) * size_of(c.dtype)});
    if (!c.algorithm.name) continue;
    for (std::size_t part = 0; part < c.part_count(); ++part) {
      std::vector<Participant>& participants = part == 0 ? c.participants : c.joined[part - 1];
      sort_by_device(std::span(participants).subspan(has_root(c.kind) ? 1 : 0));
    }
    t.device = c.participants[0].device;
  }
}

}  // namespace unity
