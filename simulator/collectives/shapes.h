// An algorithm for a collective on a group of devices, as flows whose bytes and times are linear in the size S of the
// data.
//
// What moves in uniform steps is one fluid flow: every edge of a ring, chain or tree carries the same bytes in
// lockstep, a late one stalls the others, so the flow uses each link as often as edges cross it and drains at one
// max-min fair rate. Before, it waits for its latency without using bandwidth: the longest way of a piece. With n
// devices, S bytes, and a and B of a hop on the idle uniform machine:
//
//   ring          all_reduce 2(n-1) a + 2(n-1)/n S/B; all_gather, reduce_scatter half of that
//   chain         broadcast, reduce, send: (n-1) a + S/B
//   tree          all_reduce 2 log2(n) a + 2 S/B, double binary tree (trees.h); broadcast, reduce: log2(n) a + S/B
//   hierarchical  g devices on each of N nodes, one stage after the other; all_reduce: reduce-scatter inside the nodes,
//                 all-reduce between nodes by the devices of the same place, all-gather inside:
//                 2(g-1) a1 + 2(g-1)/g S/B1 + 2(N-1) a2 + 2(N-1)/N S/(g B2) where B2 is a device's part of the network.
//                 In c chunks: one stage works on a chunk while the next does on the chunk before and the one after
//                 that on the chunk before that; c + 2 rounds in lockstep, each as long as the largest latency + time
//                 of 1/c of the bytes in it (inside a node, of both stages that are there)
//   direct        every device sends each other its part at once: all_gather, reduce_scatter a + (n-1)/n S/B,
//   all_reduce
//                 both after one another; broadcast, reduce a + (n-1) S/B; all_to_all: each pair is a flow, of more
//                 than 256 devices all pairs with equal ways (latency, least bandwidth, kind) together
//   binomial      broadcast, reduce: log2(n) (a + S/B), one round after the other; all_reduce twice that
//                 (core/plan/collective_algorithms.h)
//   in_switch     all_reduce: a + (1 + 1/n) S/B: the switch adds up (patterns.h)
//
// Chains and trees work in chunks: of k chunks over h hops the pipeline's filling adds (h-1)/k of the time of the
// bytes.
//
// Under a protocol (core/machine/collectives.h) the latency is its base, once in each stage, and the protocol's latency
// of each hop in place of the links'. On the wire are S / efficiency bytes, the protocol's times the link's that limits
// the flow on the idle machine. A rate limit adds the time that the data need beyond that of the links at their full
// rate as a wait before: exact when idle, and the links carry the bytes that they carry.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/concurrent_map.h"
#include "core/machine/collectives.h"
#include "core/plan/program.h"
#include "simulator/collectives/patterns.h"

namespace unity {

// A flow; plain data.
struct CollectivePhase {
  const Pattern* pattern = nullptr;
  std::uint32_t stage = 0;
  std::uint32_t rounds = 0;  // rings: steps, in each of which an edge carries 1/rounds of its bytes
  double share = 0;          // bytes on the wire of one unit, for each byte of S
  double drain = 0;          // seconds for each byte of S when alone on the idle machine
  double wait = 0;           // seconds for each byte of S before, because of a rate limit
  Picoseconds latency;       // before
};

// Flows of one stage start together, when all of the stage before have ended.
struct CollectiveStage {
  std::uint32_t first = 0, end = 0;  // phases
  Picoseconds latency;               // the largest
  double seconds = 0;                // for each byte of S: of the link that takes longest, and the longest wait
  // Of flows in chunks, whose latencies differ: from when on a link is busy at the least, and how long. Empty: the two
  // above.
  struct Busy {
    Picoseconds from;
    double seconds = 0;  // for each byte of S
    bool operator==(const Busy&) const = default;
  };
  std::vector<Busy> busy;
};

struct CollectiveShape {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;
  const CollectiveProtocol* protocol = nullptr;  // null: plain links
  bool several_nodes = false;
  int chunks = 1;        // hierarchical: in which data go through the stages, one behind the other
  double stretched = 1;  // its times are this many times what the links say (measured.h)
  std::vector<CollectivePhase> phases;
  std::vector<CollectiveStage> stages;

  // Alone on the idle machine, with chunks of `chunk` bytes on an edge (0: as small as one likes). Exact where a stage
  // has one flow, or flows of one latency; where latencies differ, as if all had the largest.
  Picoseconds idle_time(double bytes, Bytes chunk) const;
  // No more than it takes there, whatever the latencies; of a shape of many pairs slow to find out.
  Picoseconds least_time(const Topology& topology, double bytes) const;
  // What one hop takes before its bytes flow.
  Picoseconds hop_latency(const Edge& edge) const;
  // What each stage takes before its first hop: under a protocol, its base.
  Picoseconds base() const;
  // Multiplies all times.
  void stretch(double factor);
};
// How much longer than its bytes' time the pipeline of a phase takes to fill, in seconds.
double fill_seconds(const CollectivePhase& phase, double bytes, Bytes chunk);

// busbw / algbw of nccl-tests (its PERFORMANCE.md): the rate S/t times what a link that all of n devices have must
// carry for each byte of S: 2(n-1)/n for all_reduce; (n-1)/n for all_gather, reduce_scatter and all_to_all (there S is
// what one device holds); 1 for the others.
double bus_bandwidth_factor(CollectiveKind kind, std::size_t devices);

// An all-to-all: bytes from one device to another.
struct PairBytes {
  DeviceId from, to;
  double bytes;
  bool operator==(const PairBytes&) const = default;
};

// Patterns and shapes on a topology, made once each. Thread-safe. The topology must outlive it.
class ShapeCache {
 public:
  explicit ShapeCache(const Topology& topology) : topology_(topology) {}

  // `group` in participant order (broadcast and reduce: root first, send: source first); at least two devices. S is the
  // whole tensor piece; of all_to_all, what all participants hold together, each an equal part for every other. Null
  // where the algorithm can not do that, or has no costs under the protocol. Rings and trees go through the devices in
  // the order of their numbers, which is the order of the hierarchy. `chunks`: at least 1, of hierarchical; 1 of
  // others.
  const CollectiveShape* find(CollectiveKind kind, CollectiveAlgorithm algorithm, const CollectiveProtocol* protocol,
                              std::span<const DeviceId> group, int chunks = 1) const;
  // Direct; S is the sum of the pairs. Not kept.
  CollectiveShape exchange(const CollectiveProtocol* protocol, std::span<const PairBytes> pairs) const;

  // A copy of S bytes between a device and its host (Topology::host), one flow over the links between them; null where
  // the topology has no host for it.
  const CollectiveShape* host_copy(DeviceId device, bool to_host) const;

  const Topology& topology() const { return topology_; }

 private:
  friend class ShapeMaker;
  struct KeyHash {
    std::size_t operator()(const std::vector<std::int32_t>& key) const;
  };
  template <class T>
  using Map = ConcurrentMap<std::vector<std::int32_t>, std::shared_ptr<const std::optional<T>>, KeyHash>;

  // Patterns by what they are (the first numbers of the key) and on which devices. `make` gives an optional pattern.
  template <class Make>
  const Pattern* pattern(std::vector<std::int32_t> key, std::span<const DeviceId> devices, Make make) const;

  // Straight from one device to the other.
  const Pattern* pair(DeviceId from, DeviceId to) const;
  std::vector<const Pattern*> lumps(std::span<const DeviceId> group) const;

  const Topology& topology_;
  struct PairHash {
    std::size_t operator()(const std::pair<DeviceId, DeviceId>& pair) const;
  };
  mutable Map<Pattern> patterns_;
  mutable ConcurrentMap<std::pair<DeviceId, DeviceId>, const Pattern*, PairHash> pairs_;
  mutable Map<CollectiveShape> shapes_;  // host copies: under keys of two numbers
};

}  // namespace unity
