// Which links the hops of a collective cross, and which hop hands on what came over which other. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/machine/collectives.h"
#include "core/machine/topology.h"
#include "simulator/collectives/trees.h"
#include "simulator/network/network.h"

namespace unity {

// A hop from one device to another, or half of one: into a switch that works on the data, or out of it.
struct Edge {
  DeviceId from, to;          // invalid: the switch
  std::vector<LinkUse> uses;  // its links, once each
  Picoseconds latency;        // of its links
  // None for the way into a switch: a protocol's latency counts once for the way in and out.
  std::optional<HopClass> hop;
  std::uint32_t weight = 1;          // units of data that it carries
  std::vector<std::uint32_t> after;  // the edges, all before this one, whose data it hands on; not of rings
};

struct Pattern {
  std::vector<Edge> edges;
  // In rings of this many consecutive edges each hands on what came over the one before; 0: Edge::after says.
  std::uint32_t ring = 0;
  std::vector<LinkUse> uses;  // of all edges together, times their weights; ascending
  double sent = 0;            // units that the busiest device sends
  // Of the longest way from edge to edge: its hops. Rings: 1, since their data do not travel in chunks.
  std::uint32_t hops = 1;
  bool lumped = false;  // an edge stands for others like it, whose links are in `uses` alone
};

// Rings through the devices in the given orders; a unit is a ring's share of the data of one edge.
Pattern ring_pattern(const Topology& topology, std::span<const std::vector<DeviceId>> orders);
// Between a device and its host (Topology::host), which there must be.
Pattern host_pattern(const Topology& topology, DeviceId device, bool to_host);
// From each device to the next.
Pattern chain_pattern(const Topology& topology, std::span<const DeviceId> path);
// Up the trees (a reduction), then down (a broadcast). `group` by rank; a unit is what one tree carries.
Pattern tree_pattern(const Topology& topology, std::span<const DeviceId> group, std::span<const Tree> trees, bool up,
                     bool down);
// The hops of one round of a binomial tree (core/plan/collective_algorithms.h), away from the root or, `up`, towards
// it.
Pattern binomial_round(const Topology& topology, std::span<const DeviceId> group, std::size_t distance, bool up);
// Every pair: each at once to each; or from the first to all others, or from all others to it.
enum class Ends : std::uint8_t { all, from_first, to_first };
Pattern direct_pattern(const Topology& topology, std::span<const DeviceId> group, Ends ends);
// All pairs, each device to each other; those with equal latency, least bandwidth and kind of their ways in one
// pattern, lumped.
std::vector<Pattern> lumped_pairs(const Topology& topology, std::span<const DeviceId> group);
// All-reduce by the switch that all devices of a node hang on (NVLink SHARP): each device sends all data into the
// switch, which gives every device its part of the sum; the device sends that once, and the switch gives it to all.
// Between several nodes double binary trees join the devices of the same place. `nodes`: equally many devices of each
// node; a unit is 1 / (2 x devices of a node) of the data. None where the devices of a node have no switch in common.
std::optional<Pattern> in_switch_pattern(const Topology& topology, std::span<const std::vector<DeviceId>> nodes);

}  // namespace unity
