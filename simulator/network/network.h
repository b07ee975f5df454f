// Flows over shared links, with max-min fair rates.
//
// Max-min fairness by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2): raise the rates of all flows
// together; when a link is full, freeze the flows that cross it; repeat with the rest. Exact for fluid flows. When
// flows start or end, only the flows that share links with them, directly or through others, get new rates.
//
// A flow may cross a link several times, or stand for several equal flows that move in lockstep (a ring, or a class of
// symmetric flows): it then uses `times` times its rate there. A flow that waits for its latency is not in the network
// yet.
//
// Rates depend on the flows and links alone, bit for bit: not on the order in which flows came, nor on whether k equal
// flows are given one by one or as one flow with k-fold `times`. Each connected group of flows is filled by itself, and
// in each round what is frozen on a link is one integer, taken off its capacity in one subtraction.
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

// What the links of a network did.
struct LinkRecord {
  struct Sample {
    std::uint32_t link;
    Picoseconds time;
    double use;  // rate as fraction of the capacity, from this time to the link's next sample; 0 before its first
  };
  std::vector<double> bytes;    // by link: of all flows that have entered
  std::vector<Sample> samples;  // by time; one whenever the rate of use changes
};

class Network {
 public:
  explicit Network(const Topology& topology);
  // Links of these capacities, which are positive: not those of a topology one by one, but, say, classes of them.
  explicit Network(std::span<const BytesPerSecond> capacities);

  // Keeps a record of the links from now on; it outlives the network's use. Costs nothing when off.
  void record(LinkRecord& record);

  // `uses` is not empty, has each link once, and stays valid until finish(). Changes show after settle(). InputError,
  // here or in settle(), when the flow would end after more than 2^63 picoseconds.
  FlowIndex start(std::span<const LinkUse> uses, double bytes, Picoseconds now);
  void finish(FlowIndex flow);

  // Gives new rates to what the starts and finishes since the last call reach; they all happened at `now`. Returns the
  // flows whose end has changed, each once; valid until the next call.
  std::span<const FlowIndex> settle(Picoseconds now);

  double rate(FlowIndex flow) const { return flows_[flow].rate * 1e12; }  // bytes per second
  Picoseconds end(FlowIndex flow) const { return flows_[flow].end; }
  // Differs whenever the end has changed or the index was reused: tells stale events from the valid one.
  std::uint32_t version(FlowIndex flow) const { return flows_[flow].version; }

 private:
  struct alignas(64) Flow {
    const LinkUse* uses = nullptr;
    std::uint32_t use_count = 0;
    std::uint32_t version = 0;
    double bytes_left = 0;  // at `since`
    double rate = 0;        // bytes per picosecond
    double new_rate = 0;
    Picoseconds since, end;
    std::uint32_t collected = 0;  // turn in which it was
    std::uint32_t reported = 0;
    std::span<const LinkUse> links() const { return {uses, use_count}; }
  };
  struct Member {
    FlowIndex flow;
    std::uint32_t times;
  };
  struct LinkState {
    double capacity = 0;  // bytes per picosecond
    double left = 0;
    double share = 0;                                     // left / weight
    std::uint32_t weight = 0;                             // times of the flows that are not frozen
    std::uint32_t frozen = 0;                             // times of the flows that this round froze
    std::uint32_t touched = 0, collected = 0, noted = 0;  // turns in which it was
    std::vector<Member> flows;
  };
  struct Bound {
    double rate;
    FlowIndex flow;
  };

  void touch(std::uint32_t link);
  void report(FlowIndex flow);
  void collect_component(std::uint32_t link);
  void fill();
  void apply(Picoseconds now);
  void plan_end(Flow& flow, Picoseconds now);
  void next_turn();
  void note(const Flow& flow);
  void take_samples(Picoseconds now);

  std::vector<LinkState> links_;
  std::vector<Flow> flows_;
  std::vector<FlowIndex> unused_;
  std::vector<std::uint32_t> touched_;  // shared links that flows have joined or left
  std::vector<FlowIndex> component_, frozen_, changed_, settled_;
  std::vector<std::uint32_t> open_;  // links that several flows of the component share and that are not full
  std::vector<Bound> bounds_;        // what the links that a flow has for itself allow it
  std::uint32_t turn_ = 1;           // counts calls of settle()
  LinkRecord* record_ = nullptr;
  std::vector<std::uint32_t> noted_;  // links whose use may have changed
  std::vector<double> last_use_;
};

}  // namespace unity
