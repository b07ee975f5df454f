#include "simulator/collectives/running.h"

#include <algorithm>

#include "core/base/longest_time.h"
#include "simulator/engine/event_queue.h"

namespace unity {

bool RunningCollectives::start(std::uint32_t collective, std::shared_ptr<const CollectiveChoice> choice,
                               Picoseconds now) {
  Running& running = running_[collective];
  running.choice = std::move(choice);
  running.stage = 0;
  return begin_stage(collective, now);
}

bool RunningCollectives::begin_stage(std::uint32_t collective, Picoseconds now) {
  Running& running = running_[collective];
  const CollectiveShape* shape = running.choice->shape;
  if (!shape || running.stage == shape->stages.size()) {
    running = {};
    return true;
  }
  const CollectiveStage& stage = shape->stages[running.stage];
  double bytes = running.choice->bytes;
  if (!by_steps_) {
    running.left = stage.end - stage.first;
    for (std::uint32_t p = stage.first; p < stage.end; ++p) {
      const CollectivePhase& phase = shape->phases[p];
      double wait = phase.wait * bytes + fill_seconds(phase, bytes, options_.chunk);
      entries_.push_back({now + phase.latency + bounded_seconds(wait), collective, p});
    }
    return false;
  }
  running.steps = std::make_unique<Steps>();
  running.steps->graph = make_steps(*shape, running.stage, bytes, options_.chunk);
  const StepGraph& graph = running.steps->graph;
  running.left = graph.steps.size();
  running.steps->ready.assign(running.left, Picoseconds{});
  for (std::uint32_t s = 0; s < graph.steps.size(); ++s)
    if (graph.waits[s] == 0) {
      const CollectivePhase& phase = shape->phases[graph.steps[s].phase];
      entries_.push_back(
          {now + shape->base() + bounded_seconds(phase.wait * bytes) + graph.steps[s].latency, collective, s});
    }
  return false;
}

std::optional<std::uint32_t> RunningCollectives::enter(std::uint32_t collective, std::uint32_t part, Picoseconds now) {
  const Running& running = running_[collective];
  const CollectiveShape& shape = *running.choice->shape;
  std::span<const LinkUse> uses;
  double bytes = 0;
  if (running.steps) {
    const Step& step = running.steps->graph.steps[part];
    uses = shape.phases[step.phase].pattern->edges[step.edge].uses;
    bytes = step.bytes;
  } else {
    uses = shape.phases[part].pattern->uses;
    bytes = shape.phases[part].share * running.choice->bytes;
  }
  if (bytes <= 0) return arrive(collective, part, now) ? std::optional(collective) : std::nullopt;
  FlowIndex flow = network_.start(uses, bytes, now);
  if (owners_.size() <= flow) owners_.resize(flow + 1);
  owners_[flow] = {collective, part};
  return std::nullopt;
}

std::optional<std::uint32_t> RunningCollectives::drained(FlowIndex flow, std::uint32_t version, Picoseconds now) {
  if (network_.version(flow) != version) return std::nullopt;
  network_.finish(flow);
  Owner owner = owners_[flow];
  return arrive(owner.collective, owner.part, now) ? std::optional(owner.collective) : std::nullopt;
}

bool RunningCollectives::arrive(std::uint32_t collective, std::uint32_t part, Picoseconds now) {
  Running& running = running_[collective];
  if (running.steps) {
    Steps& steps = *running.steps;
    for (StepGraph::Follower f : steps.graph.followers(part)) {
      Picoseconds& ready = steps.ready[f.step];
      ready = std::max(ready, f.data ? now + steps.graph.steps[f.step].latency : now);
      if (--steps.graph.waits[f.step] == 0) entries_.push_back({ready, collective, f.step});
    }
  }
  if (--running.left > 0) return false;
  running.steps.reset();
  ++running.stage;
  return begin_stage(collective, now);
}

void RunningCollectives::resume_flows(const Network::State& state, std::vector<Owner> owners, Picoseconds now) {
  owners_ = std::move(owners);
  std::vector<std::span<const LinkUse>> uses;
  for (Owner owner : owners_)
    uses.push_back(running_[owner.collective].choice->shape->phases[owner.part].pattern->uses);
  network_.resume(state, uses, now);
}

std::span<const RunningCollectives::Entry> RunningCollectives::take_entries() {
  taken_.swap(entries_);
  entries_.clear();
  return taken_;
}

AloneResult simulate_alone(const Topology& topology, std::shared_ptr<const CollectiveChoice> choice,
                           const CollectiveOptions& options, bool steps) {
  struct Event {
    bool drained;
    std::uint32_t index;  // drained: flow; else part
    std::uint32_t version;
  };
  RunningCollectives running(link_capacities(topology), 1, options, steps);
  EventQueue<Event> queue;
  AloneResult result;
  auto proceed = [&] {
    for (const RunningCollectives::Entry& e : running.take_entries()) {
      queue.push(e.time, {false, e.part, 0});
      ++result.transfers;
    }
  };
  if (running.start(0, std::move(choice), {})) return result;
  proceed();
  for (bool ended = false; !ended;) {
    Picoseconds now = queue.next_time();
    while (!ended && !queue.empty() && queue.next_time() == now) {
      Event event = queue.pop();
      ended = (event.drained ? running.drained(event.index, event.version, now) : running.enter(0, event.index, now))
                  .has_value();
      proceed();
    }
    for (FlowIndex f : running.settle(now)) queue.push(running.end(f), {true, f, running.version(f)});
    result.time = now;
  }
  return result;
}

}  // namespace unity
