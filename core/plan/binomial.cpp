#include "core/plan/binomial.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace unity {
namespace {

// What a number of bytes takes: linear in it.
struct Line {
  Picoseconds latency;
  double seconds_per_byte = 0;
  double seconds(double bytes) const { return latency.seconds() + seconds_per_byte * bytes; }
};

// Hops between devices that are there at once.
class Hops {
 public:
  explicit Hops(const Topology& topology) : topology_(topology) {}

  void add(DeviceId from, DeviceId to) {
    Picoseconds latency;
    for (LinkId l : topology_.route(from, to)) {
      const Link& link = topology_.links[l.index()];
      latency += link.latency;
      slowest_ = std::max(slowest_, ++times_[l.value] / link.bandwidth.rate);
    }
    all_ += latency;
    longest_ = std::max(longest_, latency);
  }
  Picoseconds all() const { return all_; }
  Picoseconds longest() const { return longest_; }
  double seconds_per_byte() const { return slowest_; }  // where each moves the byte: of the link that takes longest

 private:
  const Topology& topology_;
  std::unordered_map<std::int32_t, int> times_;
  Picoseconds all_, longest_;
  double slowest_ = 0;
};

// Of a broadcast or reduction, and twice that of an all-reduce.
Line tree_line(std::span<const DeviceId> group, bool all_reduce, const Topology& topology) {
  Line line;
  for (std::size_t d : binomial_distances(group.size())) {
    Hops round(topology);
    for (std::size_t i = 0; i + d < group.size(); i += 2 * d) round.add(group[i], group[i + d]);
    const int times = all_reduce ? 2 : 1;
    line.latency += round.longest() * times;
    line.seconds_per_byte += round.seconds_per_byte() * times;
  }
  return line;
}

Line chain_or_ring_line(std::span<const DeviceId> group, bool all_reduce, const Topology& topology) {
  Hops hops(topology);
  for (std::size_t i = 1; i < group.size(); ++i) hops.add(group[i - 1], group[i]);
  if (!all_reduce) return {hops.all(), hops.seconds_per_byte()};
  hops.add(group.back(), group.front());
  const double around = 2 * static_cast<double>(group.size() - 1) / static_cast<double>(group.size());
  return {from_seconds(hops.all().seconds() * around), hops.seconds_per_byte() * around};
}

struct Lines {
  Line tree, other;
};

bool may_go_along_tree(CollectiveKind kind, std::size_t participants, const Topology& topology) {
  return !topology.collectives && participants > 3 &&
         (kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce || kind == CollectiveKind::all_reduce);
}

Lines lines_of(CollectiveKind kind, std::span<const DeviceId> group, const Topology& topology) {
  const bool all_reduce = kind == CollectiveKind::all_reduce;
  return {tree_line(group, all_reduce, topology), chain_or_ring_line(group, all_reduce, topology)};
}

bool faster_along_tree(const Lines& lines, double bytes) {
  return lines.tree.seconds(bytes) < lines.other.seconds(bytes);
}

}  // namespace

std::vector<std::size_t> binomial_distances(std::size_t n) {
  std::vector<std::size_t> distances;
  for (std::size_t d = 1; d < n; d *= 2) distances.push_back(d);
  std::reverse(distances.begin(), distances.end());
  return distances;
}

std::vector<DeviceId> binomial_order(CollectiveKind kind, std::span<const DeviceId> group) {
  std::vector<DeviceId> order(group.begin(), group.end());
  std::sort(order.begin() + (kind == CollectiveKind::all_reduce ? 0 : 1), order.end());
  return order;
}

bool along_binomial_tree(CollectiveKind kind, std::span<const DeviceId> group, Bytes bytes, const Topology& topology) {
  return may_go_along_tree(kind, group.size(), topology) &&
         faster_along_tree(lines_of(kind, binomial_order(kind, group), topology), static_cast<double>(bytes.count));
}

void choose_binomial_trees(Program& program, const Topology& topology) {
  std::map<std::pair<CollectiveKind, std::vector<DeviceId>>, Lines> known;
  for (Task& t : program.tasks) {
    if (t.kind != TaskKind::communicate) continue;
    Communication& c = program.communications[static_cast<std::size_t>(t.op)];
    if (!may_go_along_tree(c.kind, c.participants.size(), topology)) continue;
    std::vector<DeviceId> group;
    group.reserve(c.participants.size());
    for (const Participant& p : c.participants) group.push_back(p.device);
    auto [lines, fresh] = known.try_emplace({c.kind, binomial_order(c.kind, group)});
    if (fresh) lines->second = lines_of(c.kind, lines->first.second, topology);
    c.binomial = faster_along_tree(lines->second, static_cast<double>(elements_moved(c) * size_of(c.dtype)));
    if (!c.binomial || group == lines->first.second) continue;
    for (std::size_t part = 0; part < c.part_count(); ++part) {
      std::vector<Participant>& participants = part == 0 ? c.participants : c.joined[part - 1];
      std::sort(participants.begin() + (c.kind == CollectiveKind::all_reduce ? 0 : 1), participants.end(),
                [](const Participant& a, const Participant& b) { return a.device < b.device; });
    }
    t.device = c.participants[0].device;
  }
}

}  // namespace unity
