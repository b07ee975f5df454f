// Small messages along a binomial tree of the participants (as MPI libraries send them; Thakur, Rabenseifner, Gropp
// 2005, "Optimization of Collective Communication Operations in MPICH", section 4): log2(n) hops one after the other,
// where a chain has n - 1 and a ring's all-reduce 2 (n - 1).
//
// In a round of distance d, a power of two below n, participant i, a multiple of 2d, sends to participant i + d where
// there is one, a reduction the other way round. A broadcast goes from the largest distance to 1, a reduction from 1
// up, and an all-reduce is a reduction followed by a broadcast. Participants go by the numbers of their devices, which
// is the order of the hierarchy, behind the root; an all-reduce has the first for its root.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/base/units.h"
#include "core/machine/topology.h"
#include "core/plan/program.h"

namespace unity {

// Of the rounds of a broadcast among n participants, in order; those of a reduction are in the reverse order.
std::vector<std::size_t> binomial_distances(std::size_t n);

// The devices of a group, the root first, in the order in which they stand in the tree.
std::vector<DeviceId> binomial_order(CollectiveKind kind, std::span<const DeviceId> group);

// Whether the tree is faster than the chain or ring on the idle machine: a broadcast, reduction or all-reduce of so
// many bytes among a group, the root first, on a topology without a library of collectives, which chooses itself.
bool along_binomial_tree(CollectiveKind kind, std::span<const DeviceId> group, Bytes bytes, const Topology& topology);

// Sets Communication::binomial of all, and puts participants in order where it is true.
void choose_binomial_trees(Program& program, const Topology& topology);

}  // namespace unity
