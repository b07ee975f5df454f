// How a collective uses the links.
//
// A ring or chain moves in lockstep: every edge carries the same bytes, and a late one stalls the others. Hence a
// collective is one flow that uses each link as often as edges cross it, and drains at one max-min fair rate. On n
// devices and S bytes each edge of a ring carries 2(n-1)/n S (all-reduce) or (n-1)/n S (all-gather, reduce-scatter),
// each edge of a chain S (broadcast, reduce, send: pipelined). Before, it waits for its latency without using
// bandwidth: the longest way a piece goes, 2(n-1) or n-1 consecutive edges of a ring, all edges of a chain. On an idle
// uniform machine with latency a and bandwidth B this is the closed form 2(n-1) a + 2(n-1)/n S/B (all-reduce).
#pragma once

#include <memory>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/machine/topology.h"
#include "core/plan/program.h"
#include "simulator/network/network.h"

namespace unity {

struct Pattern {
  std::vector<LinkUse> uses;                // of all edges
  std::vector<std::vector<LinkUse>> edges;  // of each
  std::vector<Picoseconds> latencies;       // of each edge
  Picoseconds once_around;                  // ring: n-1 consecutive edges, the slowest; chain: all edges
  Picoseconds twice_around;                 // ring: 2(n-1) consecutive edges, the slowest
  double idle_rate = 0;                     // bytes per second on the idle machine: least of bandwidth / times
};

// A flow of a collective: `bytes` over the pattern after `latency`.
struct Transfer {
  const Pattern* pattern = nullptr;
  double bytes = 0;
  Picoseconds latency;
};

// Patterns of groups of devices on a topology, computed once each. Thread-safe.
class PatternCache {
 public:
  explicit PatternCache(const Topology& topology) : topology_(topology) {}

  // The ring through the devices in the order of their numbers, which is the order of the hierarchy.
  const Pattern& ring(std::span<const DeviceId> group) const;
  // From each device to the next.
  const Pattern& chain(std::span<const DeviceId> path) const;

  const Topology& topology() const { return topology_; }

 private:
  struct KeyHash {
    std::size_t operator()(const std::vector<std::int32_t>& key) const;
  };
  const Pattern& find(const std::vector<DeviceId>& path, bool closed) const;
  Pattern make(const std::vector<DeviceId>& path, bool closed) const;

  const Topology& topology_;
  mutable std::shared_mutex mutex_;
  mutable std::unordered_map<std::vector<std::int32_t>, std::unique_ptr<const Pattern>, KeyHash> patterns_;
};

// The transfers of a communication; it has ended when all have. `group` in participant order (broadcast and reduce:
// root first, send: source first). `bytes` is the whole tensor piece S; all_to_all: what all participants hold
// together, each an equal part for every other.
std::vector<Transfer> transfers(CollectiveKind kind, std::span<const DeviceId> group, Bytes bytes,
                                const PatternCache& patterns);
std::vector<Transfer> transfers(const Communication& communication, const PatternCache& patterns);

// The time of the transfers alone on the idle machine. Exact for one transfer; for several, each link's load bounds it.
Picoseconds idle_time(const std::vector<Transfer>& transfers, const Topology& topology);

}  // namespace unity
