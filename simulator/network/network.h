// Flows over shared links, with max-min fair rates.
//
// Max-min fairness by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2): raise the rates of all flows
// together; when a link is full, freeze the flows that cross it; repeat with the rest. Exact for fluid flows.
//
// When flows start or end, only those get new rates that a change reaches: from a full link to the flows that it
// limits, from such a flow to the other full links that it crosses. With these rates it is checked whether a link of
// other flows is overfull now, or a link that limits flows is too full for faster ones; then they are taken in, too.
// What is left out has the same rates as in the whole network: its flows are limited by links where nothing has
// changed.
//
// A flow may cross a link several times, or stand for several equal flows that move in lockstep (a ring, or a class of
// symmetric flows): it then uses `times` times its rate there. A flow that waits for its latency is not in the network
// yet.
//
// Bit for bit, nothing depends on the order in which flows came at one time, nor on whether k equal flows are given one
// by one or as one flow with k-fold `times`: what is taken off a link's capacity at one rate is one integer weight.
// Where links of different flows tie, the last bits of a rate depend on what happened before.
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

std::vector<BytesPerSecond> link_capacities(const Topology& topology);  // by link

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
  std::size_t bytes() const;  // of memory

  // All that a network does from a moment after settle() on depends on: to compare two moments, which are equal
  // whenever they are, and to go on from one. Flows count by their place in a list of the caller's.
  struct State {
    struct Flow {
      double bytes_left, rate;  // when it got its rate
      Picoseconds age, left;    // since then; until its end
      bool operator==(const Flow&) const = default;
    };
    struct Link {  // that has flows
      std::uint32_t link, members;
      double load, level;
      bool operator==(const Link&) const = default;
    };
    struct Member {
      std::uint32_t flow, times;
      bool operator==(const Member&) const = default;
    };
    std::vector<Flow> flows;
    std::vector<Link> links;      // ascending
    std::vector<Member> members;  // of one link after the other
    bool operator==(const State&) const = default;
  };
  // `flows`: all.
  State state(std::span<const FlowIndex> flows, Picoseconds now) const;
  // In a network that has had no flows. `uses`: by place; the flows get these places as indices.
  void resume(const State& state, std::span<const std::span<const LinkUse>> uses, Picoseconds now);

 private:
  struct alignas(64) Flow {
    const LinkUse* uses = nullptr;  // null: ended
    std::uint32_t use_count = 0;
    std::uint32_t version = 0;
    double bytes_left = 0;  // at `since`
    double rate = 0;        // bytes per picosecond; 0: new
    double new_rate = 0;
    Picoseconds since, end;
    std::uint32_t reached = 0;   // number of the change
    std::uint32_t reported = 0;  // turn
    std::span<const LinkUse> links() const { return {uses, use_count}; }
  };
  struct Member {
    FlowIndex flow;
    std::uint32_t times;
  };
  struct alignas(64) LinkState {
    std::vector<Member> flows;
    double capacity = 0;  // bytes per picosecond
    double load = 0;      // sum of the rates
    double level = 0;     // rate of the flows that it limits; infinite when it limits none
    double new_load = 0;
    std::uint32_t reached = 0, checked = 0;  // number of the change
    double new_level = 0;                    // from here on: another cache line
    std::uint32_t touched = 0, noted = 0;    // turn
    double fastest_fixed = 0;                // rate of those that keep theirs
    double left = 0;                         // for flows that are not frozen
    double share = 0;                        // left / weight
    std::uint32_t weight = 0;                // times of the flows that are not frozen
    std::uint32_t frozen = 0;                // times of the flows that this round froze
    std::uint32_t removed = 0;               // beside the flow that was removed last
  };
  struct Bound {
    double rate;
    FlowIndex flow;
  };

  bool start_beside_others(Flow& flow, double bound);
  static void remove(LinkState& link, FlowIndex flow);
  void set_rate(Flow& flow, double rate, Picoseconds now);
  void report(FlowIndex flow);

  // Whether it started in this turn. Until rates are applied, only flows that started with room are reported.
  bool is_new(const Flow& flow) const { return flow.rate == 0 || flow.reported == turn_; }

  // One change: its flows get new rates, for which its links are filled.
  void begin_change();
  void settle_change(Picoseconds now);
  void add_flow(FlowIndex flow);
  void add_link(std::uint32_t link);
  void expand();
  void open_link(LinkState& link);
  void fill();
  bool widen();
  void apply(Picoseconds now);

  void next_turn();
  void note(const Flow& flow);
  void take_samples(Picoseconds now);

  std::vector<LinkState> links_;
  std::vector<Flow> flows_;
  std::vector<FlowIndex> unused_;
  std::vector<FlowIndex> joined_;       // flows that share links and have no rate yet
  std::vector<std::uint32_t> touched_;  // full links that flows have left
  std::vector<FlowIndex> changed_, settled_;
  std::uint32_t turn_ = 1;  // counts calls of settle()

  std::uint32_t change_ = 0;  // counts changes
  std::vector<FlowIndex> change_flows_;
  std::vector<std::uint32_t> change_links_, checked_;
  std::vector<Bound> change_bounds_;  // what the links that a flow has for itself allow it
  std::size_t expanded_ = 0;          // how many of change_links_ expand() has seen
  std::vector<std::uint32_t> open_;   // of change_links_: those with flows that are not frozen
  std::vector<Bound> bounds_;         // of change_bounds_: those of such flows
  std::vector<FlowIndex> frozen_;
  std::vector<std::pair<double, std::uint32_t>> fixed_;  // rates and times of flows that keep theirs

  LinkRecord* record_ = nullptr;
  std::vector<std::uint32_t> noted_;  // links whose use may have changed
  std::vector<double> last_use_;
};

}  // namespace unity
