// Flows over shared links, with max-min fair rates.
//
// Max-min fairness by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2): raise the rates of all flows
// together; when a link is full, freeze the flows that cross it; repeat with the rest. Exact for fluid flows. When
// flows start or end, only the flows that share links with them, directly or through others, get new rates.
//
// A flow may cross a link several times, or stand for several equal flows that move in lockstep (a ring): it then uses
// `times` times its rate there. A flow that waits for its latency is not in the network yet.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/machine/topology.h"

namespace unity {

struct LinkUse {
  std::uint32_t link = 0;  // index into Topology::links
  std::uint32_t times = 1;
  bool operator==(const LinkUse&) const = default;
};

using FlowIndex = std::uint32_t;  // reused after the flow has ended

class Network {
 public:
  explicit Network(const Topology& topology);

  // `uses` is not empty, has each link once, and stays valid until finish(). Changes show after settle().
  FlowIndex start(std::span<const LinkUse> uses, double bytes, Picoseconds now);
  void finish(FlowIndex flow);

  // Gives new rates to what the starts and finishes since the last call reach. Returns the flows whose end has changed;
  // valid until the next call.
  std::span<const FlowIndex> settle(Picoseconds now);

  double rate(FlowIndex flow) const { return flows_[flow].rate * 1e12; }  // bytes per second
  Picoseconds end(FlowIndex flow) const { return flows_[flow].end; }
  // Differs whenever the end has changed or the index was reused: tells stale events from the valid one.
  std::uint32_t version(FlowIndex flow) const { return flows_[flow].version; }

 private:
  struct Flow {
    std::span<const LinkUse> uses;
    double remaining = 0;  // bytes at `since`
    double rate = 0;       // bytes per picosecond
    double new_rate = 0;
    Picoseconds since, end;
    std::uint32_t version = 0;
    std::uint32_t mark = 0;
  };
  struct LinkState {
    double capacity = 0;  // bytes per picosecond
    double left = 0;
    std::uint32_t weight = 0;  // times of the flows that are not frozen
    std::uint32_t mark = 0;
    std::vector<FlowIndex> flows;
  };

  void touch(std::uint32_t link);
  void collect_component();
  void fill();

  std::vector<LinkState> links_;
  std::vector<Flow> flows_;
  std::vector<FlowIndex> unused_;
  std::vector<std::uint32_t> touched_;  // links from which the component is collected
  std::vector<FlowIndex> component_, frozen_, changed_;
  std::vector<std::uint32_t> open_;
  std::uint32_t mark_ = 1;
};

}  // namespace unity
