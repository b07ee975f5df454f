#include "simulator/simulate.h"

#include <algorithm>
#include <tuple>

#include "simulator/collectives/patterns.h"
#include "simulator/devices/roofline.h"
#include "simulator/devices/shared_compute.h"
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
        shared_(topology_),
        memory_(program, options.trace),
        running_(topology_.device_count()),
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
      for (DeviceId d : shared_.settle(now_))
        queue_.push(shared_.end(d),
                    {Event::Kind::shared_end, static_cast<std::uint32_t>(d.value), 0, shared_.version(d)});
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
    std::uint32_t index;    // end, enter, noticed: task; shared_end: device; drained: flow
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
    Picoseconds duration = duration_of(task);
    if (task.stream == Stream::compute && shared_.shared(task.device)) {
      running_[task.device.index()] = id;
      shared_.start(task.device, duration, now_);
    } else {
      queue_.push(now_ + duration, {Event::Kind::end, id, 0, 0});
    }
  }

  // Tasks of one operator follow one another and are mostly equal.
  Picoseconds duration_of(const Task& task) {
    std::size_t spec = topology_.device(task.device).spec;
    DType dtype = DType::f32;
    if (task.operands_end > task.operands_begin) dtype = program_.tensor_of(program_.operands_of(task).back()).dtype;
    std::tuple key(task.flops, task.bytes, spec, dtype);
    if (key != last_duration_key_) {
      last_duration_key_ = key;
      last_duration_ = roofline_time(topology_.specs[spec], task.flops, task.bytes, dtype);
    }
    return last_duration_;
  }

  void start_communication(std::uint32_t id) {
    const Communication& c = program_.communications[static_cast<std::size_t>(program_.tasks[id].op)];
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
        DeviceId device(event.index);
        if (shared_.version(device) != event.version) return;
        shared_.finish(device);
        return end(running_[device.index()]);
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
    Picoseconds handover = topology_.spec(task.device).handover;
    if (handover.count == 0 || (ended.device == task.device && ended.stream == task.stream))
      ready_.push_back(follower);
    else
      queue_.push(now_ + handover, {Event::Kind::noticed, follower, 0, 0});
  }

  SimulationResult result() {
    SimulationResult result;
    result.iteration = last_end_;
    result.peak_memory = memory_.peaks();
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
  SharedCompute shared_;
  MemoryTracker memory_;
  std::vector<std::uint32_t> running_;  // by device: the task on shared compute
  std::vector<RunningCommunication> running_communications_;
  std::vector<FlowOwner> owners_;  // by flow
  std::vector<std::uint32_t> ready_, starting_;
  std::vector<Picoseconds> starts_;
  std::tuple<double, double, std::size_t, DType> last_duration_key_{-1, -1, 0, DType::f32};
  Picoseconds last_duration_;
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

Picoseconds task_duration(const Program& program, const Task& task, const Topology& topology) {
  DType dtype = DType::f32;
  if (task.operands_end > task.operands_begin) dtype = program.tensor_of(program.operands_of(task).back()).dtype;
  return roofline_time(topology.spec(task.device), task.flops, task.bytes, dtype);
}

}  // namespace unity
