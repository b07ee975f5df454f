// Which algorithm a communication takes on a topology that names no library of collectives, which would choose itself:
// what is fastest on the idle machine, of
//
// plain         the ring (all_reduce, all_gather, reduce_scatter) or chain (broadcast, reduce, send) of the
//               participants, or direct exchanges (all_to_all).
// binomial      broadcast, reduce, all_reduce of little (as MPI libraries send it; Thakur, Rabenseifner, Gropp 2005,
//               "Optimization of Collective Communication Operations in MPICH", section 4): log2(n) hops one after
//               the other, where a chain has n - 1 and a ring's all-reduce 2 (n - 1). In a round of distance d, a power
//               of two below n, participant i, a multiple of 2d, sends to participant i + d where there is one, a
//               reduction the other way round. A broadcast goes from the largest distance to 1, a reduction from 1 up,
//               and an all-reduce is a reduction followed by a broadcast.
// hierarchical  all_reduce, all_gather, reduce_scatter among g devices of each of N nodes, by rings in up to three
//               stages: a reduce-scatter inside the nodes, what is asked for between the devices of one place in their
//               nodes, an all-gather inside the nodes; an all_gather has not the first of them, a reduce_scatter not
//               the last. 2 (g - 1) + 2 (N - 1) hops of an all-reduce one after the other, and a node sends
//               2 (N - 1) / N of the data, where a ring's has 2 (g N - 1) and sends up to twice the data. The data go
//               in chunks: one stage works on a chunk while the next one does on the chunk before.
//
// Participants then go by the numbers of their devices, which is the order of the hierarchy: behind the root, of a
// broadcast or reduction.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/base/concurrent_map.h"
#include "core/base/hash.h"
#include "core/machine/topology.h"
#include "core/plan/program.h"

namespace unity {

// In which the data of a hierarchical collective go.
constexpr std::int32_t kMostCollectiveChunks = 64;

// The distances of the rounds of a broadcast among n participants along a binomial tree, in order; those of a reduction
// are in the reverse order.
std::vector<std::size_t> binomial_distances(std::size_t n);

// The devices of a group, the root first, in the order in which they stand in a tree or hierarchy.
std::vector<DeviceId> algorithm_order(CollectiveKind kind, std::span<const DeviceId> group);

// The devices by the part of the hierarchy's level `node` that they are in, in the order of their numbers.
std::vector<std::vector<DeviceId>> by_node(const Topology& topology, std::span<const DeviceId> group);

// Choices on a topology, which must outlive it. Thread-safe.
class CollectiveAlgorithms {
 public:
  explicit CollectiveAlgorithms(const Topology& topology) : topology_(topology) {}

  // `group`: the root first, of a broadcast or reduction. `bytes`: as in elements_in_steps().
  CommunicationAlgorithm choose(CollectiveKind kind, std::span<const DeviceId> group, Bytes bytes) const;

 private:
  // An algorithm, and what a number of bytes takes by it on the idle machine: linear in it.
  struct Candidate {
    CommunicationAlgorithm algorithm;
    Picoseconds latency;
    double seconds_per_byte = 0;
  };
  using Candidates = std::vector<Candidate>;
  struct Group {
    CollectiveKind kind;
    std::vector<DeviceId> order;
    bool operator==(const Group&) const = default;
  };
  struct GroupHash {
    std::size_t operator()(const Group& group) const;
  };
  class Pricing;

  const Topology& topology_;
  mutable ConcurrentMap<Group, std::shared_ptr<const Candidates>, GroupHash> known_;
};

// Sets Communication::algorithm of all, and puts participants in order where it is not the plain one.
void choose_algorithms(Program& program, const CollectiveAlgorithms& algorithms);

}  // namespace unity
