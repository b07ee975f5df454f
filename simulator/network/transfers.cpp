#include "simulator/network/transfers.h"

#include <algorithm>

#include "simulator/engine/event_queue.h"
#include "simulator/engine/indexed_queue.h"

namespace unity {
namespace {

// The transfers that come after each, from those that each comes after.
struct Followers {
  std::vector<std::uint32_t> begin;  // by transfer, and one more
  std::vector<TransferIndex> list;

  explicit Followers(const TransferGraph& graph) : begin(graph.size() + 1), list(graph.dependencies()) {
    for (TransferIndex t = 0; t < graph.size(); ++t)
      for (TransferIndex before : graph.after(t)) {
        UNITY_CHECK(before < graph.size(), "transfer {} comes after {} of {}", t, before, graph.size());
        ++begin[before];
      }
    std::uint32_t sum = 0;
    for (std::uint32_t& b : begin) b = sum += b;
    for (auto t = static_cast<TransferIndex>(graph.size()); t-- > 0;)
      for (TransferIndex before : graph.after(t)) list[--begin[before]] = t;
  }
  std::span<const TransferIndex> of(TransferIndex t) const { return {list.data() + begin[t], begin[t + 1] - begin[t]}; }
};

// The links of each route without those that limit no rate: which only routes cross that cross a link that is no
// faster, as often at least.
class LimitingLinks {
 public:
  LimitingLinks(const TransferGraph& graph, const Topology& topology)
      : graph_(graph), topology_(topology), crossings_(topology.links.size()) {
    for (RouteIndex r = 0; r < graph.routes(); ++r)
      for (const LinkUse& use : graph.links_of_route(r)) crossings_[use.link].push_back({r, use.times});
    std::vector<bool> limits(crossings_.size());
    for (std::uint32_t l = 0; l < crossings_.size(); ++l) limits[l] = !crossings_[l].empty() && !is_implied(l);
    for (RouteIndex r = 0; r < graph.routes(); ++r) {
      begin_.push_back(static_cast<std::uint32_t>(uses_.size()));
      for (const LinkUse& use : graph.links_of_route(r))
        if (limits[use.link]) uses_.push_back(use);
    }
    begin_.push_back(static_cast<std::uint32_t>(uses_.size()));
  }

  std::span<const LinkUse> of(RouteIndex r) const { return {uses_.data() + begin_[r], uses_.data() + begin_[r + 1]}; }

 private:
  struct Crossing {
    RouteIndex route;
    std::uint32_t times;
    bool operator==(const Crossing&) const = default;
  };

  // By another link; of equal ones by the first.
  bool is_implied(std::uint32_t link) const {
    for (const LinkUse& use : graph_.links_of_route(crossings_[link][0].route)) {
      double rate = topology_.links[link].bandwidth.rate, other = topology_.links[use.link].bandwidth.rate;
      if (use.link == link || other > rate || !crosses_too(link, use.link)) continue;
      if (use.link < link || other < rate || crossings_[use.link] != crossings_[link]) return true;
    }
    return false;
  }
  bool crosses_too(std::uint32_t link, std::uint32_t other) const {
    auto at = crossings_[other].begin(), end = crossings_[other].end();
    for (const Crossing& c : crossings_[link]) {
      while (at != end && at->route < c.route) ++at;
      if (at == end || at->route != c.route || at->times < c.times) return false;
    }
    return true;
  }

  const TransferGraph& graph_;
  const Topology& topology_;
  std::vector<std::vector<Crossing>> crossings_;  // by link, routes ascending
  std::vector<std::uint32_t> begin_;              // by route, and the end
  std::vector<LinkUse> uses_;
};

class TransferSimulation {
 public:
  TransferSimulation(const TransferGraph& graph, const Topology& topology, LinkRecord* record)
      : graph_(graph), followers_(graph), network_(topology), waits_for_(graph.size()), times_(graph.size()) {
    if (record)
      network_.record(*record);
    else
      limiting_.emplace(graph, topology);
    for (TransferIndex t = 0; t < graph.size(); ++t) {
      times_[t] = graph.start(t);
      waits_for_[t] = static_cast<std::uint32_t>(graph.after(t).size());
    }
  }

  std::vector<Picoseconds> run() {
    for (TransferIndex t = 0; t < graph_.size(); ++t)
      if (waits_for_[t] == 0) known_.push_back({entry(t), t});
    std::sort(known_.begin(), known_.end());
    while (true) {
      Picoseconds now = kNever;
      if (next_known_ < known_.size()) now = known_[next_known_].first;
      if (!entering_.empty()) now = std::min(now, entering_.next_time());
      if (!draining_.empty()) now = std::min(now, draining_.next_time());
      if (now == kNever) break;
      // What happens at one time is settled as a whole.
      while (!draining_.empty() && draining_.next_time() == now) {
        FlowIndex flow = draining_.pop();
        network_.finish(flow);
        arrive(transfer_of_[flow], now);
      }
      for (; next_known_ < known_.size() && known_[next_known_].first == now; ++next_known_)
        enter(known_[next_known_].second, now);
      while (!entering_.empty() && entering_.next_time() == now) enter(entering_.pop(), now);
      for (FlowIndex flow : network_.settle(now)) draining_.set(flow, network_.end(flow));
    }
    UNITY_CHECK(arrived_ == graph_.size(), "{} of {} transfers have ended", arrived_, graph_.size());
    return std::move(times_);
  }

 private:
  static constexpr Picoseconds kNever{INT64_MAX};

  // When the latency is over.
  Picoseconds entry(TransferIndex t) const {
    if (times_[t].seconds() + graph_.latency(t).seconds() > 9.2e6)
      throw_input_error("a transfer that may start after {:.3g} s: found an end after more than 106 days",
                        times_[t].seconds());
    return times_[t] + graph_.latency(t);
  }

  void depart(TransferIndex t) { entering_.push(entry(t), t); }

  void enter(TransferIndex t, Picoseconds now) {
    std::span<const LinkUse> links = limiting_ ? limiting_->of(graph_.route(t)) : graph_.links(t);
    if (links.empty() || graph_.bytes(t) <= 0) return arrive(t, now);
    FlowIndex flow = network_.start(links, graph_.bytes(t), now);
    if (flow >= transfer_of_.size()) transfer_of_.resize(flow + 1);
    transfer_of_[flow] = t;
  }

  void arrive(TransferIndex t, Picoseconds now) {
    times_[t] = now;
    ++arrived_;
    for (TransferIndex follower : followers_.of(t)) {
      times_[follower] = std::max(times_[follower], now);
      if (--waits_for_[follower] == 0) depart(follower);
    }
  }

  const TransferGraph& graph_;
  Followers followers_;
  Network network_;
  std::optional<LimitingLinks> limiting_;  // none with a record, which is of all links
  // When the latency is over: of transfers that wait for none, in order, so that the queue of the others stays short.
  std::vector<std::pair<Picoseconds, TransferIndex>> known_;
  std::size_t next_known_ = 0;
  EventQueue<TransferIndex> entering_;
  IndexedQueue draining_;                   // by flow: when the last byte arrives
  std::vector<TransferIndex> transfer_of_;  // by flow
  std::vector<std::uint32_t> waits_for_;
  std::vector<Picoseconds> times_;  // when it can start, then when it has ended
  std::size_t arrived_ = 0;
};

}  // namespace

RouteIndex TransferGraph::add_route(std::span<const LinkUse> uses, Picoseconds latency) {
  routes_.push_back({static_cast<std::uint32_t>(uses_.size()), static_cast<std::uint32_t>(uses.size()), latency});
  uses_.insert(uses_.end(), uses.begin(), uses.end());
  return static_cast<RouteIndex>(routes_.size() - 1);
}

TransferIndex TransferGraph::add(RouteIndex route, double bytes, std::span<const TransferIndex> after,
                                 Picoseconds start) {
  UNITY_CHECK(route < routes_.size() && bytes >= 0 && start.count >= 0, "route {}, {} bytes, start {} ps", route, bytes,
              start.count);
  transfers_.push_back({bytes, start, route, static_cast<std::uint32_t>(after_.size())});
  after_.insert(after_.end(), after.begin(), after.end());
  return static_cast<TransferIndex>(transfers_.size() - 1);
}

void TransferGraph::reserve(std::size_t transfers, std::size_t dependencies) {
  transfers_.reserve(transfers);
  after_.reserve(dependencies);
}

RouteIndex DeviceRoutes::operator()(DeviceId from, DeviceId to) {
  auto key = static_cast<std::uint64_t>(from.index()) << 32 | static_cast<std::uint64_t>(to.index());
  if (auto found = routes_.find(key); found != routes_.end()) return found->second;
  std::vector<LinkUse> uses;
  for (LinkId l : topology_.route(from, to)) uses.push_back({static_cast<std::uint32_t>(l.value), 1});
  return routes_[key] = graph_.add_route(uses, topology_.latency(from, to));
}

std::vector<Picoseconds> simulate_transfers(const TransferGraph& graph, const Topology& topology, LinkRecord* record) {
  return TransferSimulation(graph, topology, record).run();
}

std::optional<TransferIndex> never_starts(const TransferGraph& graph) {
  Followers followers(graph);
  std::vector<std::size_t> waits_for(graph.size());
  std::vector<TransferIndex> ready;
  for (TransferIndex t = 0; t < graph.size(); ++t)
    if ((waits_for[t] = graph.after(t).size()) == 0) ready.push_back(t);
  while (!ready.empty()) {
    TransferIndex t = ready.back();
    ready.pop_back();
    for (TransferIndex follower : followers.of(t))
      if (--waits_for[follower] == 0) ready.push_back(follower);
  }
  for (TransferIndex t = 0; t < graph.size(); ++t)
    if (waits_for[t] > 0) return t;
  return std::nullopt;
}

TransferGraph ring_all_reduce(const Topology& topology, std::span<const DeviceId> ring, Bytes bytes) {
  TransferGraph graph;
  std::size_t n = ring.size();
  if (n < 2) return graph;
  graph.reserve(2 * (n - 1) * n, 2 * (2 * (n - 1) - 1) * n);
  DeviceRoutes routes(topology, graph);
  add_ring_all_reduce(graph, routes, ring, bytes, {});
  return graph;
}

void add_ring_all_reduce(TransferGraph& graph, DeviceRoutes& routes, std::span<const DeviceId> ring, Bytes bytes,
                         Picoseconds start) {
  auto n = static_cast<TransferIndex>(ring.size()), first = static_cast<TransferIndex>(graph.size());
  if (n < 2) return;
  double part = static_cast<double>(bytes.count) / n;
  for (TransferIndex s = 0; s < 2 * (n - 1); ++s)
    for (TransferIndex e = 0; e < n; ++e) {
      TransferIndex before = s == 0 ? 0 : first + (s - 1) * n;
      TransferIndex after[] = {before + e, before + (e + n - 1) % n};
      graph.add(routes(ring[e], ring[(e + 1) % n]), part, s == 0 ? std::span<const TransferIndex>() : after, start);
    }
}

}  // namespace unity
