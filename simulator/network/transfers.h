// Point-to-point transfers that wait for one another, and when each of them ends.
//
// A transfer waits for those it comes after and for its start, then for the latency of its route without using
// bandwidth, then it drains at its max-min fair rate (network.h). Memory: 40 bytes for a transfer, 16 more for one that
// waits for no other, 8 for each dependency, and 100 for a transfer while it is under way.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "simulator/network/network.h"

namespace unity {

using RouteIndex = std::uint32_t;
using TransferIndex = std::uint32_t;

// Transfers by number, in the order in which they are added, over routes that they share.
class TransferGraph {
 public:
  // Each link once. Without links (a device to itself) only the latency passes.
  RouteIndex add_route(std::span<const LinkUse> uses, Picoseconds latency);
  // `after`: transfers that must have ended, which may be added later. `bytes` and `start` are not negative.
  TransferIndex add(RouteIndex route, double bytes, std::span<const TransferIndex> after = {}, Picoseconds start = {});
  void reserve(std::size_t transfers, std::size_t dependencies);

  std::size_t size() const { return transfers_.size(); }
  std::size_t dependencies() const { return after_.size(); }
  double bytes(TransferIndex t) const { return transfers_[t].bytes; }
  Picoseconds start(TransferIndex t) const { return transfers_[t].start; }
  RouteIndex route(TransferIndex t) const { return transfers_[t].route; }
  std::size_t routes() const { return routes_.size(); }
  std::span<const LinkUse> links_of_route(RouteIndex r) const {
    return {uses_.data() + routes_[r].begin, routes_[r].count};
  }
  std::span<const LinkUse> links(TransferIndex t) const { return links_of_route(transfers_[t].route); }
  Picoseconds latency(TransferIndex t) const { return routes_[transfers_[t].route].latency; }
  std::span<const TransferIndex> after(TransferIndex t) const {
    std::size_t end = t + 1 < transfers_.size() ? transfers_[t + 1].after_begin : after_.size();
    return {after_.data() + transfers_[t].after_begin, end - transfers_[t].after_begin};
  }

 private:
  struct Route {
    std::uint32_t begin, count;  // in uses_
    Picoseconds latency;
  };
  struct TransferData {
    double bytes;
    Picoseconds start;
    RouteIndex route;
    std::uint32_t after_begin;  // in after_
  };
  std::vector<LinkUse> uses_;
  std::vector<Route> routes_;
  std::vector<TransferData> transfers_;
  std::vector<TransferIndex> after_;
};

// The routes between the devices of a topology, each added to a graph when it is first asked for.
class DeviceRoutes {
 public:
  DeviceRoutes(const Topology& topology, TransferGraph& graph) : topology_(topology), graph_(graph) {}
  RouteIndex operator()(DeviceId from, DeviceId to);

 private:
  const Topology& topology_;
  TransferGraph& graph_;
  std::unordered_map<std::uint64_t, RouteIndex> routes_;
};

// When each transfer ends. Transfers must not wait for themselves. With a `record`, what the links did.
std::vector<Picoseconds> simulate_transfers(const TransferGraph& graph, const Topology& topology,
                                            LinkRecord* record = nullptr);

// The first transfer that never starts, because it waits for itself or for one that does.
std::optional<TransferIndex> never_starts(const TransferGraph& graph);

// A ring all-reduce of `bytes` on n devices, step by step: 2(n-1) steps of n transfers of bytes / n. The transfer of
// step s on edge e, number s n + e, comes after (s-1, e), when its edge is free, and (s-1, e-1), when its data is
// there.
TransferGraph ring_all_reduce(const Topology& topology, std::span<const DeviceId> ring, Bytes bytes);
// The same, added to a graph: numbers count from its size on, and nothing starts before `start`.
void add_ring_all_reduce(TransferGraph& graph, DeviceRoutes& routes, std::span<const DeviceId> ring, Bytes bytes,
                         Picoseconds start);

}  // namespace unity
