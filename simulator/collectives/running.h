// The collectives that run in a simulation: their flows over the network, stage after stage.
//
// The owner starts a collective, queues the entries that this gives, tells when the time of one has come or a flow has
// drained, and hears when a collective has ended.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "simulator/collectives/choice.h"
#include "simulator/collectives/steps.h"
#include "simulator/engine/held_bytes.h"
#include "simulator/network/network.h"

namespace unity {

class RunningCollectives {
 public:
  // By number, 0 to count-1. `steps`: transfer by transfer (steps.h) instead of one flow for a phase.
  RunningCollectives(std::span<const BytesPerSecond> capacities, std::size_t count, const CollectiveOptions& options,
                     bool steps)
      : network_(capacities), options_(options), by_steps_(steps), running_(count) {}

  // Keeps a record of the links from now on (Network::record).
  void record(LinkRecord& record) { network_.record(record); }

  // Something of a collective whose latency ends at a time: call enter() then.
  struct Entry {
    Picoseconds time;
    std::uint32_t collective, part;
  };

  // `choice` stays with the collective until it ends. True: it has ended already.
  bool start(std::uint32_t collective, std::shared_ptr<const CollectiveChoice> choice, Picoseconds now);
  // Each gives the collective that has ended by this, if one has. A flow's end that is no longer valid gives none.
  std::optional<std::uint32_t> enter(std::uint32_t collective, std::uint32_t part, Picoseconds now);
  std::optional<std::uint32_t> drained(FlowIndex flow, std::uint32_t version, Picoseconds now);

  // Since the last call: what to queue. Valid until the next call of anything else.
  std::span<const Entry> take_entries();
  // Shares the links anew; the flows whose ends have changed.
  std::span<const FlowIndex> settle(Picoseconds now) { return network_.settle(now); }
  Picoseconds end(FlowIndex flow) const { return network_.end(flow); }
  std::uint32_t version(FlowIndex flow) const { return network_.version(flow); }
  // Of memory; without those of steps.
  std::size_t bytes() const { return network_.bytes() + held_bytes(running_, owners_, entries_, taken_); }

  // How far what runs is at a moment after settle(), and to go on from there, where nothing has run yet. Not of steps.
  struct Owner {
    std::uint32_t collective, part;
  };
  struct Progress {
    std::uint32_t stage, left;
  };
  const Network& network() const { return network_; }
  Owner owner(FlowIndex flow) const { return owners_[flow]; }
  Progress progress(std::uint32_t collective) const {
    const Running& running = running_[collective];
    return {static_cast<std::uint32_t>(running.stage), static_cast<std::uint32_t>(running.left)};
  }
  void resume(std::uint32_t collective, std::shared_ptr<const CollectiveChoice> choice, Progress progress) {
    running_[collective] = {std::move(choice), nullptr, progress.stage, progress.left};
  }
  // After that of their collectives. The flows get their places as indices.
  void resume_flows(const Network::State& state, std::vector<Owner> owners, Picoseconds now);

 private:
  struct Steps {
    StepGraph graph;
    std::vector<Picoseconds> ready;  // by step: may start then, as far as is known
  };
  struct Running {
    std::shared_ptr<const CollectiveChoice> choice;
    std::unique_ptr<Steps> steps;
    std::size_t stage = 0;
    std::size_t left = 0;  // flows or steps of the stage
  };

  // Goes on to the next stage that has something to do; true: there is none.
  bool begin_stage(std::uint32_t collective, Picoseconds now);
  bool arrive(std::uint32_t collective, std::uint32_t part, Picoseconds now);

  Network network_;
  CollectiveOptions options_;
  bool by_steps_;
  std::vector<Running> running_;
  std::vector<Owner> owners_;  // by flow
  std::vector<Entry> entries_, taken_;
};

// One collective alone on the machine: the time of its simulation, and how many transfers (flows) it was.
struct AloneResult {
  Picoseconds time;
  std::int64_t transfers = 0;
};
AloneResult simulate_alone(const Topology& topology, std::shared_ptr<const CollectiveChoice> choice,
                           const CollectiveOptions& options, bool steps);

}  // namespace unity
