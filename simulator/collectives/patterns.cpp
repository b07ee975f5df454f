#include "simulator/collectives/patterns.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

namespace unity {
namespace {

// The largest sum of `count` consecutive values around a circle.
Picoseconds largest_run(const std::vector<Picoseconds>& values, std::size_t count) {
  Picoseconds largest;
  for (std::size_t first = 0; first < values.size(); ++first) {
    Picoseconds sum;
    for (std::size_t i = 0; i < count; ++i) sum += values[(first + i) % values.size()];
    largest = std::max(largest, sum);
  }
  return largest;
}

std::vector<DeviceId> devices_of(const Communication& c) {
  std::vector<DeviceId> devices;
  devices.reserve(c.participants.size());
  for (const Participant& p : c.participants) devices.push_back(p.device);
  return devices;
}

std::vector<Transfer> all_to_all(const std::map<std::pair<DeviceId, DeviceId>, double>& bytes,
                                 const PatternCache& patterns) {
  std::vector<Transfer> result;
  for (const auto& [ends, count] : bytes) {
    std::vector<DeviceId> path = {ends.first, ends.second};
    const Pattern& pattern = patterns.chain(path);
    result.push_back({&pattern, count, pattern.once_around});
  }
  return result;
}

}  // namespace

std::size_t PatternCache::KeyHash::operator()(const std::vector<std::int32_t>& key) const {
  Hash h = key.size();
  for (std::int32_t k : key) h = (h ^ static_cast<std::uint32_t>(k)) * 0x100000001b3u;
  return mix(h);
}

Pattern PatternCache::make(const std::vector<DeviceId>& path, bool closed) const {
  Pattern pattern;
  std::map<std::uint32_t, std::uint32_t> times;
  std::size_t edges = closed ? path.size() : path.size() - 1;
  for (std::size_t i = 0; i < edges; ++i) {
    std::vector<LinkUse>& edge = pattern.edges.emplace_back();
    Picoseconds latency;
    for (LinkId l : topology_.route(path[i], path[(i + 1) % path.size()])) {
      edge.push_back({static_cast<std::uint32_t>(l.value), 1});
      ++times[edge.back().link];
      latency += topology_.links[l.index()].latency;
    }
    pattern.latencies.push_back(latency);
  }
  pattern.idle_rate = std::numeric_limits<double>::infinity();
  for (const auto& [link, count] : times) {
    pattern.uses.push_back({link, count});
    pattern.idle_rate = std::min(pattern.idle_rate, topology_.links[link].bandwidth.rate / count);
  }
  if (closed) {
    pattern.once_around = largest_run(pattern.latencies, edges - 1);
    pattern.twice_around = largest_run(pattern.latencies, 2 * (edges - 1));
  } else {
    for (Picoseconds latency : pattern.latencies) pattern.once_around += latency;
  }
  return pattern;
}

const Pattern& PatternCache::find(const std::vector<DeviceId>& path, bool closed) const {
  std::vector<std::int32_t> key;
  key.reserve(path.size() + 1);
  key.push_back(closed);
  for (DeviceId d : path) key.push_back(d.value);
  {
    std::shared_lock lock(mutex_);
    if (auto found = patterns_.find(key); found != patterns_.end()) return *found->second;
  }
  auto made = std::make_unique<const Pattern>(make(path, closed));
  std::unique_lock lock(mutex_);
  return *patterns_.emplace(std::move(key), std::move(made)).first->second;
}

const Pattern& PatternCache::ring(std::span<const DeviceId> group) const {
  UNITY_CHECK(group.size() > 1, "a ring of {} devices", group.size());
  std::vector<DeviceId> sorted(group.begin(), group.end());
  std::sort(sorted.begin(), sorted.end());
  return find(sorted, true);
}

const Pattern& PatternCache::chain(std::span<const DeviceId> path) const {
  UNITY_CHECK(path.size() > 1, "a chain of {} devices", path.size());
  return find({path.begin(), path.end()}, false);
}

std::vector<Transfer> transfers(CollectiveKind kind, std::span<const DeviceId> group, Bytes bytes,
                                const PatternCache& patterns) {
  double size = static_cast<double>(bytes.count), n = static_cast<double>(group.size());
  if (group.size() < 2) return {};
  switch (kind) {
    case CollectiveKind::all_reduce: {
      const Pattern& ring = patterns.ring(group);
      return {{&ring, 2 * (n - 1) / n * size, ring.twice_around}};
    }
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter: {
      const Pattern& ring = patterns.ring(group);
      return {{&ring, (n - 1) / n * size, ring.once_around}};
    }
    case CollectiveKind::send:
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce: {
      std::vector<DeviceId> path(group.begin(), group.end());
      std::sort(path.begin() + 1, path.end());
      if (kind == CollectiveKind::reduce) std::reverse(path.begin(), path.end());
      const Pattern& chain = patterns.chain(path);
      return {{&chain, size, chain.once_around}};
    }
    case CollectiveKind::all_to_all:
      break;
  }
  std::map<std::pair<DeviceId, DeviceId>, double> pairs;
  for (DeviceId a : group)
    for (DeviceId b : group)
      if (a != b) pairs[{a, b}] = size / (n * n);
  return all_to_all(pairs, patterns);
}

std::vector<Transfer> transfers(const Communication& c, const PatternCache& patterns) {
  std::vector<DeviceId> devices = devices_of(c);
  std::int64_t element = size_of(c.dtype);
  if (c.kind == CollectiveKind::all_to_all) {
    std::map<std::pair<DeviceId, DeviceId>, double> pairs;
    for (const Exchange& e : c.exchanges) {
      DeviceId from = devices[static_cast<std::size_t>(e.from)], to = devices[static_cast<std::size_t>(e.to)];
      if (from != to) pairs[{from, to}] += static_cast<double>(e.box.elements() * element);
    }
    return all_to_all(pairs, patterns);
  }
  return transfers(c.kind, devices, {elements_moved(c) * element}, patterns);
}

Picoseconds idle_time(const std::vector<Transfer>& transfers, const Topology& topology) {
  if (transfers.size() == 1)
    return transfers[0].latency + from_seconds(transfers[0].bytes / transfers[0].pattern->idle_rate);
  std::map<std::uint32_t, double> load;
  Picoseconds latency;
  for (const Transfer& t : transfers) {
    latency = std::max(latency, t.latency);
    for (const LinkUse& use : t.pattern->uses) load[use.link] += t.bytes * use.times;
  }
  double seconds = 0;
  for (const auto& [link, bytes] : load) seconds = std::max(seconds, bytes / topology.links[link].bandwidth.rate);
  return latency + from_seconds(seconds);
}

}  // namespace unity
