#include "simulator/simulate.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "simulator/collectives/patterns.h"
#include "simulator/devices/shared_compute.h"
#include "simulator/devices/task_times.h"
#include "simulator/engine/event_queue.h"
#include "simulator/memory_tracker.h"
#include "simulator/network/network.h"
#include "simulator/task_graph.h"

namespace unity {
namespace {

class Simulation {
 public:
  Simulation(const Program& program, const PatternCache& patterns, const SimulationOptions& options)
      : program_(program),
        patterns_(patterns),
        topology_(patterns.topology()),
        options_(options),
        graph_(program),
        waits_for_(graph_.waits_for()),
        network_(topology_),
        times_(program, topology_),
        shared_(topology_, program.communications.size()),
        memory_(program, options.trace),
        running_(topology_.device_count() + program.communications.size()),
        running_communications_(program.communications.size()) {
    UNITY_CHECK(static_cast<std::size_t>(program.devices) <= topology_.device_count(), "a program for {} devices on {}",
                program.devices, topology_.device_count());
    if (options.trace) starts_.resize(program.tasks.size());
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
      for (FlowIndex f : network_.settle(now_))
        queue_.push(network_.end(f), {Event::Kind::drained, f, 0, network_.version(f)});
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
    std::uint32_t index;    // end, enter, noticed: task; shared_end: user; drained: flow
    std::uint32_t part;     // enter: transfer, or edge of a ring by steps
    std::uint32_t version;  // shared_end, drained: stale when it differs
  };
  // A transfer, or edge of a ring by steps, that a flow stands for.
  struct FlowOwner {
    std::uint32_t task, part;
  };
  struct RunningCommunication {
    std::vector<Transfer> transfers;
    std::uint32_t left = 0;
    std::vector<std::vector<Picoseconds>> delivered;  // by edge, by step: when it had arrived
    std::uint32_t steps = 0;                          // 0: lockstep
  };

  RunningCommunication& communication(std::uint32_t task) {
    return running_communications_[static_cast<std::size_t>(program_.tasks[task].op)];
  }

  void start_ready() {
    std::sort(ready_.begin(), ready_.end());
    starting_.swap(ready_);
    for (std::uint32_t task : starting_) start(task);
    starting_.clear();
  }

  void start(std::uint32_t id) {
    const Task& task = program_.tasks[id];
    if (options_.trace) starts_[id] = now_;
    memory_.start(task);
    if (task.kind == TaskKind::communicate) return start_communication(id);
    TaskTimes::Time time = times_.time(TaskId(id));
    ++(time.measured ? profiled_ : estimated_);
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
    const Communication& c = program_.communications[index];
    if (auto measured = times_.communication(TaskId(id))) {
      ++profiled_;
      std::size_t physical = topology_.device(program_.tasks[id].device).physical;
      running_[shared_.start_communication(index, physical, *measured, now_)] = id;
      return;
    }
    ++estimated_;
    RunningCommunication& running = communication(id);
    running.transfers = transfers(c, patterns_);
    running.left = static_cast<std::uint32_t>(running.transfers.size());
    bool ring = c.kind == CollectiveKind::all_reduce || c.kind == CollectiveKind::all_gather ||
                c.kind == CollectiveKind::reduce_scatter;
    if (running.left == 0) {
      queue_.push(now_, {Event::Kind::end, id, 0, 0});
    } else if (ring && options_.ring == RingModel::steps) {
      auto n = static_cast<std::uint32_t>(c.participants.size());
      running.steps = c.kind == CollectiveKind::all_reduce ? 2 * (n - 1) : n - 1;
      running.delivered.assign(n, {});
      running.left = n;
      for (std::uint32_t edge = 0; edge < n; ++edge) send_step(id, edge, now_);
    } else {
      for (std::uint32_t part = 0; part < running.left; ++part)
        queue_.push(now_ + running.transfers[part].latency, {Event::Kind::enter, id, part, 0});
    }
  }

  // What the edge sends next was there at `available`; its link is free now.
  void send_step(std::uint32_t task, std::uint32_t edge, Picoseconds available) {
    Picoseconds latency = communication(task).transfers[0].pattern->latencies[edge];
    queue_.push(std::max(now_, available + latency), {Event::Kind::enter, task, edge, 0});
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
        return enter(event.index, event.part);
      case Event::Kind::drained: {
        if (network_.version(event.index) != event.version) return;
        network_.finish(event.index);
        FlowOwner owner = owners_[event.index];
        return arrive(owner.task, owner.part);
      }
    }
  }

  // The latency is over: the flow shares the links from now on.
  void enter(std::uint32_t task, std::uint32_t part) {
    const RunningCommunication& running = communication(task);
    const Transfer& transfer = running.transfers[running.steps ? 0 : part];
    double bytes = running.steps ? transfer.bytes / running.steps : transfer.bytes;
    if (bytes <= 0) return arrive(task, part);
    FlowIndex flow =
        network_.start(running.steps ? transfer.pattern->edges[part] : transfer.pattern->uses, bytes, now_);
    if (owners_.size() <= flow) owners_.resize(flow + 1);
    owners_[flow] = {task, part};
  }

  void arrive(std::uint32_t task, std::uint32_t part) {
    RunningCommunication& running = communication(task);
    if (running.steps) {
      // An edge may send step s when its own step s-1 has gone out and the edge before has delivered its step s-1.
      std::size_t n = running.delivered.size(), before = (part + n - 1) % n, after = (part + 1) % n;
      running.delivered[part].push_back(now_);
      std::size_t sent = running.delivered[part].size();
      if (sent == running.steps) {
        if (--running.left == 0) end(task);
        return;
      }
      if (running.delivered[before].size() >= sent) send_step(task, part, running.delivered[before][sent - 1]);
      if (running.delivered[after].size() == sent) send_step(task, static_cast<std::uint32_t>(after), now_);
      return;
    }
    if (--running.left == 0) end(task);
  }

  void end(std::uint32_t id) {
    const Task& task = program_.tasks[id];
    ++ended_;
    last_end_ = now_;
    memory_.finish(task);
    if (options_.trace) {
      auto stream = static_cast<std::uint8_t>(task.stream);
      TaskId task_id(id);
      if (task.kind == TaskKind::communicate)
        for (const Participant& p : program_.communications[static_cast<std::size_t>(task.op)].participants)
          trace_.spans.push_back({task_id, p.device, stream, starts_[id], now_});
      else
        trace_.spans.push_back({task_id, task.device, stream, starts_[id], now_});
    }
    for (std::uint32_t follower : graph_.followers(id))
      if (--waits_for_[follower] == 0) notice(task, follower);
  }

  // A thread that waits for its own stream goes on at once; for another, it takes a while to notice.
  void notice(const Task& ended, std::uint32_t follower) {
    const Task& task = program_.tasks[follower];
    Picoseconds handover = times_.handover(task.device);
    if (handover.count == 0 || (ended.device == task.device && ended.stream == task.stream))
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
    trace_.source = "simulated";
    trace_.program = program_hash(program_);
    trace_.iteration = last_end_;
    std::sort(trace_.spans.begin(), trace_.spans.end(), [](const Span& a, const Span& b) {
      return std::tuple(a.start, a.task, a.device) < std::tuple(b.start, b.task, b.device);
    });
    trace_.memory = memory_.take_samples();
    result.trace = std::move(trace_);
    return result;
  }

  const Program& program_;
  const PatternCache& patterns_;
  const Topology& topology_;
  SimulationOptions options_;
  TaskGraph graph_;
  std::vector<std::uint32_t> waits_for_;
  EventQueue<Event> queue_;
  Network network_;
  TaskTimes times_;
  SharedCompute shared_;
  MemoryTracker memory_;
  std::vector<std::uint32_t> running_;  // by user of shared compute: its task
  std::vector<RunningCommunication> running_communications_;
  std::vector<FlowOwner> owners_;  // by flow
  std::vector<std::uint32_t> ready_, starting_;
  std::vector<Picoseconds> starts_;
  std::int64_t profiled_ = 0, estimated_ = 0;
  Picoseconds now_;
  Picoseconds last_end_;  // later events are stale ones
  std::size_t ended_ = 0;
  Trace trace_;
};

}  // namespace

SimulationResult simulate(const Program& program, const Topology& topology, const SimulationOptions& options) {
  return simulate(program, PatternCache(topology), options);
}

SimulationResult simulate(const Program& program, const PatternCache& patterns, const SimulationOptions& options) {
  return Simulation(program, patterns, options).run();
}

}  // namespace unity
