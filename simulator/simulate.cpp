#include "simulator/simulate.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "simulator/collectives/running.h"
#include "simulator/devices/shared_compute.h"
#include "simulator/engine/event_queue.h"
#include "simulator/folding/folded.h"
#include "simulator/link_use.h"
#include "simulator/memory_tracker.h"
#include "simulator/prepared.h"
#include "simulator/simulation_bytes.h"

namespace unity {
namespace {

class Simulation {
 public:
  Simulation(const PreparedProgram& prepared, const Topology& topology, const SimulationOptions& options)
      : prepared_(prepared),
        program_(*prepared.program),
        topology_(topology),
        options_(options),
        waits_for_(prepared.graph.waits_for()),
        collectives_(prepared.capacities, prepared.choices.size(), options.collectives, options.steps),
        shared_(topology_, program_.communications.size()),
        memory_(prepared.buffers, program_.tasks.size(), static_cast<std::size_t>(program_.devices), options.trace),
        running_(topology_.device_count() + program_.communications.size()),
        flow_tasks_(prepared.choices.size()) {
    if (options.trace) starts_.resize(program_.tasks.size());
    if (options.trace && options.links) collectives_.record(links_);
  }

  // By link that the choices name, of what has run. Empty without SimulationOptions::links.
  const LinkRecord& links() const { return links_; }

  std::size_t bytes() const {
    return queue_.bytes() + collectives_.bytes() + shared_.bytes() + memory_.bytes() +
           held_bytes(waits_for_, running_, flow_tasks_, choices_, ready_, starting_, starts_);
  }

  SimulationResult run() {
    for (std::size_t i = 0; i < program_.tasks.size(); ++i)
      if (waits_for_[i] == 0) ready_.push_back(static_cast<std::uint32_t>(i));
    while (true) {
      // What happens at one time is settled as a whole: rates change once, however many tasks start and end.
      do {
        start_ready();
        while (!queue_.empty() && queue_.next_time() == now_) handle(queue_.pop());
      } while (!ready_.empty());
      for (FlowIndex f : collectives_.settle(now_))
        queue_.push(collectives_.end(f), {Event::Kind::drained, f, 0, collectives_.version(f)});
      for (std::uint32_t user : shared_.settle(now_))
        queue_.push(shared_.end(user), {Event::Kind::shared_end, user, 0, shared_.version(user)});
      if (!queue_.empty() && queue_.next_time() == now_) continue;
      if (options_.trace) memory_.sample(now_);
      if (queue_.empty()) break;
      now_ = queue_.next_time();
    }
    UNITY_CHECK(ended_ == program_.tasks.size(), "{} of {} tasks ended", ended_, program_.tasks.size());
    return result();
  }

 private:
  struct Event {
    enum class Kind : std::uint8_t { end, shared_end, enter, drained, noticed } kind;
    std::uint32_t index;    // end, noticed: task; shared_end: user; enter: collective or copy; drained: flow
    std::uint32_t part;     // enter: of the collective
    std::uint32_t version;  // shared_end, drained: stale when it differs
  };
  void start_ready() {
    std::sort(ready_.begin(), ready_.end());
    starting_.swap(ready_);
    for (std::uint32_t task : starting_) start(task);
    starting_.clear();
  }

  void start(std::uint32_t id) {
    const Task& task = program_.tasks[id];
    if (options_.trace) starts_[id] = now_;
    memory_.start(id);
    if (task.kind == TaskKind::communicate) return start_communication(id);
    const TaskTimes::Time& time = prepared_.times[id];
    ++(time.measured ? profiled_ : estimated_);
    if (prepared_.flows[id] != PreparedProgram::kNoFlow) return start_flow(id);
    if (task.stream == Stream::compute && shared_.shared(task.device)) {
      // A measured time is that of all threads of the device, an estimate that of one.
      Picoseconds work = time.alone;
      if (time.measured) work = {std::llround(static_cast<double>(work.count) * shared_.share(task.device))};
      running_[shared_.start(task.device, work, now_)] = id;
    } else {
      queue_.push(now_ + time.alone, {Event::Kind::end, id, 0, 0});
    }
  }

  void start_communication(std::uint32_t id) {
    auto index = static_cast<std::size_t>(program_.tasks[id].op);
    const auto& choice = prepared_.choices[index];
    if (!choice) {
      ++profiled_;
      std::size_t physical = topology_.device(program_.tasks[id].device).physical;
      running_[shared_.start_communication(index, physical, prepared_.times[id].alone, now_)] = id;
      return;
    }
    ++estimated_;
    shared_.communicates(program_.communications[index], true);
    if (options_.trace) choices_.push_back({TaskId(id), choice->reason, choice->alternatives});
    start_flow(id);
  }

  void start_flow(std::uint32_t id) {
    std::uint32_t flow = prepared_.flows[id];
    flow_tasks_[flow] = id;
    if (collectives_.start(flow, prepared_.choices[flow], now_)) queue_.push(now_, {Event::Kind::end, id, 0, 0});
    proceed(std::nullopt);
  }

  // Queues what a collective or copy does next, and ends the task that has ended, if one has.
  void proceed(std::optional<std::uint32_t> ended) {
    for (const RunningCollectives::Entry& e : collectives_.take_entries())
      queue_.push(e.time, {Event::Kind::enter, e.collective, e.part, 0});
    if (ended) end(flow_tasks_[*ended]);
  }

  void handle(const Event& event) {
    switch (event.kind) {
      case Event::Kind::end:
        return end(event.index);
      case Event::Kind::shared_end: {
        if (shared_.version(event.index) != event.version) return;
        shared_.finish(event.index);
        return end(running_[event.index]);
      }
      case Event::Kind::noticed:
        return ready_.push_back(event.index);
      case Event::Kind::enter:
        return proceed(collectives_.enter(event.index, event.part, now_));
      case Event::Kind::drained:
        return proceed(collectives_.drained(event.index, event.version, now_));
    }
  }

  void end(std::uint32_t id) {
    const Task& task = program_.tasks[id];
    ++ended_;
    last_end_ = now_;
    memory_.finish(id);
    if (task.kind == TaskKind::communicate && prepared_.choices[static_cast<std::size_t>(task.op)])
      shared_.communicates(program_.communications[static_cast<std::size_t>(task.op)], false);
    if (options_.trace) {
      auto stream = static_cast<std::uint8_t>(task.stream);
      TaskId task_id(id);
      if (task.kind == TaskKind::communicate)
        for (const Participant& p : program_.communications[static_cast<std::size_t>(task.op)].participants)
          trace_.spans.push_back({task_id, p.device, stream, starts_[id], now_});
      else
        trace_.spans.push_back({task_id, task.device, stream, starts_[id], now_});
    }
    for (std::uint32_t follower : prepared_.graph.followers(id))
      if (--waits_for_[follower] == 0) notice(task, follower);
  }

  // A thread that waits for its own stream goes on at once; for another, it takes a while to notice. A communication
  // runs on the communication streams of all participants.
  void notice(const Task& ended, std::uint32_t follower) {
    const Task& task = program_.tasks[follower];
    Picoseconds handover = prepared_.handovers[task.device.index()];
    bool same = ended.stream == task.stream && (ended.device == task.device || ended.stream == Stream::communication);
    if (handover.count == 0 || same)
      ready_.push_back(follower);
    else
      queue_.push(now_ + handover, {Event::Kind::noticed, follower, 0, 0});
  }

  SimulationResult result() {
    SimulationResult result;
    result.iteration = last_end_;
    result.peak_memory = memory_.peaks();
    result.memory_by_category = memory_.at_peak();
    result.profiled_tasks = profiled_;
    result.estimated_tasks = estimated_;
    if (!options_.trace) return result;
    std::sort(choices_.begin(), choices_.end(),
              [](const TaskCollective& a, const TaskCollective& b) { return a.task < b.task; });
    result.collectives = std::move(choices_);
    trace_.source = "simulated";
    trace_.program = program_hash(program_);
    trace_.iteration = last_end_;
    std::sort(trace_.spans.begin(), trace_.spans.end(), starts_before);
    trace_.memory = memory_.take_samples();
    result.trace = std::move(trace_);
    return result;
  }

  const PreparedProgram& prepared_;
  const Program& program_;
  const Topology& topology_;
  SimulationOptions options_;
  std::vector<std::uint32_t> waits_for_;
  EventQueue<Event> queue_;
  RunningCollectives collectives_;
  SharedCompute shared_;
  MemoryTracker memory_;
  std::vector<std::uint32_t> running_;     // by user of shared compute: its task
  std::vector<std::uint32_t> flow_tasks_;  // by place in PreparedProgram::choices
  std::vector<TaskCollective> choices_;
  std::vector<std::uint32_t> ready_, starting_;
  std::vector<Picoseconds> starts_;
  std::int64_t profiled_ = 0, estimated_ = 0;
  Picoseconds now_;
  Picoseconds last_end_;  // later events are stale ones
  std::size_t ended_ = 0;
  Trace trace_;
  LinkRecord links_;
};

}  // namespace

SimulationResult simulate(const Program& program, const Topology& topology, const SimulationOptions& options) {
  return simulate(program, CollectiveCache(topology), options);
}

SimulationResult simulate(const Program& program, const CollectiveCache& cache, const SimulationOptions& options) {
  PreparedProgram prepared = prepare(program, cache, options);
  if (!options.fold || options.steps) return simulate(prepared, cache.topology(), options);
  return simulate_folded(prepared, cache.topology(), options);
}

SimulationResult simulate(const PreparedProgram& prepared, const Topology& topology, const SimulationOptions& options) {
  Simulation simulation(prepared, topology, options);
  SimulationResult result = simulation.run();
  if (options.trace && options.links) add_links(simulation.links(), {}, topology, result.trace);
  return result;
}

Bytes simulation_bytes(const PreparedProgram& prepared, const Topology& topology, const SimulationOptions& options) {
  Simulation simulation(prepared, topology, options);
  SimulationResult result = simulation.run();
  std::size_t bytes = simulation.bytes() + prepared.graph.bytes() + prepared.buffers.bytes() +
                      held_bytes(prepared.times, prepared.handovers, prepared.choices, prepared.capacities);
  bytes += held_bytes(result.peak_memory, result.memory_by_category, result.trace.spans, result.trace.memory);
  return {static_cast<std::int64_t>(bytes)};
}

SimulationResult simulate_folded(const PreparedProgram& prepared, const Topology& topology,
                                 const SimulationOptions& options) {
  FoldedProgram folded(prepared, topology);
  Simulation simulation(folded.prepared(), topology, options);
  SimulationResult result = folded.unfold(simulation.run());
  if (options.trace && options.links) add_links(simulation.links(), folded.symmetry().links.of, topology, result.trace);
  return result;
}

}  // namespace unity
