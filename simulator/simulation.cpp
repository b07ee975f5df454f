#include "simulator/simulation.h"

#include <algorithm>
#include <cmath>

namespace unity {

Simulation::Simulation(const PreparedProgram& prepared, const Topology& topology, const SimulationOptions& options)
    : prepared_(prepared),
      program_(*prepared.program),
      topology_(topology),
      options_(options),
      waits_for_(prepared.graph.waits_for()),
      collectives_(prepared.capacities, prepared.choices.size(), options.collectives, options.steps),
      shared_(topology_, program_.communications.size()),
      units_(topology_),
      memory_(prepared.buffers, program_.tasks.size(), static_cast<std::size_t>(program_.devices), options.trace),
      running_(topology_.device_count() + program_.communications.size()),
      flow_tasks_(prepared.choices.size()) {
  if (options.trace) starts_.resize(program_.tasks.size());
  if (options.trace && options.links) collectives_.record(links_);
}

std::size_t Simulation::bytes() const {
  return queue_.bytes() + collectives_.bytes() + shared_.bytes() + units_.bytes() + memory_.bytes() +
         held_bytes(waits_for_, running_, flow_tasks_, choices_, ready_, starting_, starts_);
}

SimulationResult Simulation::run(SimulationObserver* observer) {
  observer_ = observer;
  for (std::size_t i = 0; i < program_.tasks.size(); ++i)
    if (waits_for_[i] == 0) ready_.push_back(static_cast<std::uint32_t>(i));
  while (true) {
    // What happens at one time is settled as a whole: rates change once, however many tasks start and end.
    do {
      start_ready();
      while (!queue_.empty() && queue_.next_time() == now_) handle(queue_.pop());
    } while (!ready_.empty() || units_.may_take());
    for (FlowIndex f : collectives_.settle(now_))
      queue_.push(collectives_.end(f), {EventKind::drained, f, 0, collectives_.version(f)});
    for (std::uint32_t user : shared_.settle(now_))
      queue_.push(shared_.end(user), {EventKind::shared_end, user, 0, shared_.version(user)});
    if (!queue_.empty() && queue_.next_time() == now_) continue;
    if (options_.trace) memory_.sample(now_);
    if (observer_) observer_->settled(*this);
    if (queue_.empty()) break;
    now_ = queue_.next_time();
  }
  UNITY_CHECK(ended_ == program_.tasks.size(), "{} of {} tasks ended", ended_, program_.tasks.size());
  return result();
}

void Simulation::start_ready() {
  std::sort(ready_.begin(), ready_.end());
  starting_.swap(ready_);
  for (std::uint32_t id : starting_) {
    const Task& task = program_.tasks[id];
    if (needs_unit(task))
      units_.add(physical_of(task), {id, task.device, task.stream, helpers(task)});
    else
      start(id, 1);
  }
  starting_.clear();
  while (auto taken = units_.next()) start(taken->task, taken->slower);
}

// Of those that tasks wait for.
bool Simulation::needs_unit(const Task& task) const {
  if (!units_.queues(physical_of(task))) return false;
  if (task.kind == TaskKind::communicate) return !prepared_.choices[static_cast<std::size_t>(task.op)];
  return task.stream == Stream::compute;
}

// Each participant of a communication helps, but with a single copy.
std::uint32_t Simulation::helpers(const Task& task) const {
  if (task.kind != TaskKind::communicate) return 1;
  const Communication& c = program_.communications[static_cast<std::size_t>(task.op)];
  return c.kind == CollectiveKind::send ? 1 : static_cast<std::uint32_t>(c.participants.size());
}

// `slower`: than its time alone.
void Simulation::start(std::uint32_t id, double slower) {
  const Task& task = program_.tasks[id];
  if (options_.trace) starts_[id] = now_;
  if (observer_) observer_->started(id, now_);
  memory_.start(id);
  const TaskTimes::Time& time = prepared_.times[id];
  ++(time.measured ? profiled_ : estimated_);
  if (task.kind == TaskKind::communicate) return start_communication(id, slower);
  if (prepared_.flows[id] != PreparedProgram::kNoFlow) return start_flow(id);
  if (task.stream == Stream::compute && shared_.shared(task.device) && !units_.queues(physical_of(task))) {
    // A measured time is that of all threads of the device, an estimate that of one.
    Picoseconds work = time.alone;
    if (time.measured) work = {std::llround(static_cast<double>(work.count) * shared_.share(task.device))};
    running_[shared_.start(task.device, work, now_)] = id;
  } else {
    queue_.push(now_ + time.alone, {EventKind::end, id, 0, 0});
  }
}

void Simulation::start_communication(std::uint32_t id, double slower) {
  auto index = static_cast<std::size_t>(program_.tasks[id].op);
  const auto& choice = prepared_.choices[index];
  if (!choice) {
    std::size_t physical = physical_of(program_.tasks[id]);
    Picoseconds alone = prepared_.times[id].alone;
    if (units_.queues(physical)) {
      Picoseconds takes{std::llround(static_cast<double>(alone.count) * slower)};
      return queue_.push(now_ + takes, {EventKind::end, id, 0, 0});
    }
    running_[shared_.start_communication(index, physical, alone, now_)] = id;
    return;
  }
  shared_.communicates(program_.communications[index], true);
  if (options_.trace) choices_.push_back({TaskId(id), choice->reason, choice->alternatives});
  start_flow(id);
}

void Simulation::start_flow(std::uint32_t id) {
  std::uint32_t flow = prepared_.flows[id];
  flow_tasks_[flow] = id;
  if (collectives_.start(flow, prepared_.choices[flow], now_)) queue_.push(now_, {EventKind::end, id, 0, 0});
  proceed(std::nullopt);
}

// Queues what a collective or copy does next, and ends the task that has ended, if one has.
void Simulation::proceed(std::optional<std::uint32_t> ended) {
  for (const RunningCollectives::Entry& e : collectives_.take_entries())
    queue_.push(e.time, {EventKind::enter, e.collective, e.part, 0});
  if (ended) end(flow_tasks_[*ended]);
}

void Simulation::handle(const Event& event) {
  switch (event.kind) {
    case EventKind::end:
      return end(event.index);
    case EventKind::shared_end: {
      if (stale(event)) return;
      shared_.finish(event.index);
      return end(running_[event.index]);
    }
    case EventKind::noticed:
      return ready_.push_back(event.index);
    case EventKind::enter:
      return proceed(collectives_.enter(event.index, event.part, now_));
    case EventKind::drained:
      return proceed(collectives_.drained(event.index, event.version, now_));
  }
}

bool Simulation::stale(const Event& event) const {
  if (event.kind == EventKind::shared_end) return shared_.version(event.index) != event.version;
  return event.kind == EventKind::drained && collectives_.version(event.index) != event.version;
}

void Simulation::end(std::uint32_t id) {
  const Task& task = program_.tasks[id];
  ++ended_;
  last_end_ = now_;
  if (observer_) observer_->ended(id, now_);
  memory_.finish(id);
  if (needs_unit(task)) units_.finish(physical_of(task), id, task.device, task.stream);
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
// runs on the communication streams of all participants, and begins when the slowest of them has noticed.
void Simulation::notice(const Task& ended, std::uint32_t follower) {
  const Task& task = program_.tasks[follower];
  Picoseconds handover = prepared_.handovers[task.device.index()];
  if (task.kind == TaskKind::communicate)
    for (const Participant& p : program_.communications[static_cast<std::size_t>(task.op)].participants)
      handover = std::max(handover, prepared_.handovers[p.device.index()]);
  bool same = ended.stream == task.stream && (ended.device == task.device || ended.stream == Stream::communication);
  if (handover.count == 0 || same)
    ready_.push_back(follower);
  else
    queue_.push(now_ + handover, {EventKind::noticed, follower, 0, 0});
}

SimulationResult Simulation::result() {
  SimulationResult result;
  result.iteration = last_end_ + prepared_.step_overhead;
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
  trace_.iteration = result.iteration;
  std::sort(trace_.spans.begin(), trace_.spans.end(), starts_before);
  trace_.memory = memory_.take_samples();
  result.trace = std::move(trace_);
  return result;
}

Simulation::State Simulation::state() const {
  UNITY_CHECK(!options_.steps && ready_.empty(), "no state of steps, nor before a time is settled");
  State state;
  std::vector<FlowIndex> flows;
  std::vector<std::uint32_t> users;
  std::vector<bool> seen(flow_tasks_.size());
  for (const auto& [time, event] : queue_.pending()) {
    if (stale(event)) continue;
    State::Pending pending{event.kind, event.index, event.part, time - now_};
    if (event.kind == EventKind::shared_end) {
      users.push_back(event.index);
      pending.task = running_[event.index];
    } else if (event.kind == EventKind::enter || event.kind == EventKind::drained) {
      std::uint32_t collective = event.index;
      if (event.kind == EventKind::drained) {
        flows.push_back(event.index);
        collective = collectives_.owner(event.index).collective;
        pending.part = collectives_.owner(event.index).part;
      }
      pending.task = flow_tasks_[collective];
      if (!seen[collective]) {
        auto [stage, left] = collectives_.progress(collective);
        state.collectives.push_back({pending.task, stage, left});
        seen[collective] = true;
      }
    }
    state.pending.push_back(pending);
  }
  state.network = collectives_.network().state(flows, now_);
  state.shared = shared_.state(users, now_);
  state.units = units_.state();
  return state;
}

void Simulation::replay_start(std::uint32_t task) {
  memory_.start(task);
  ++(prepared_.times[task].measured ? profiled_ : estimated_);
}

void Simulation::replay_end(std::uint32_t task, Picoseconds at) {
  ++ended_;
  last_end_ = at;
  memory_.finish(task);
  for (std::uint32_t follower : prepared_.graph.followers(task)) --waits_for_[follower];
}

void Simulation::resume(const State& state, Picoseconds now) {
  now_ = now;
  queue_ = {};
  collectives_ = {prepared_.capacities, prepared_.choices.size(), options_.collectives, options_.steps};
  shared_ = {topology_, program_.communications.size()};
  for (const State::Collective& c : state.collectives) {
    const Task& task = program_.tasks[c.task];
    std::uint32_t flow = prepared_.flows[c.task];
    flow_tasks_[flow] = c.task;
    collectives_.resume(flow, prepared_.choices[flow], {c.stage, c.left});
    if (task.kind == TaskKind::communicate)
      shared_.communicates(program_.communications[static_cast<std::size_t>(task.op)], true);
  }
  std::vector<RunningCollectives::Owner> owners;
  std::vector<std::uint32_t> users;
  for (const State::Pending& p : state.pending) {
    if (p.kind == EventKind::drained) owners.push_back({prepared_.flows[p.task], p.part});
    if (p.kind != EventKind::shared_end) continue;
    const Task& task = program_.tasks[p.task];
    users.push_back(task.kind == TaskKind::communicate
                        ? shared_.user_of_communication(static_cast<std::size_t>(task.op))
                        : shared_.user(task.device));
    running_[users.back()] = p.task;
  }
  collectives_.resume_flows(state.network, std::move(owners), now_);
  shared_.resume(state.shared, users, now_);
  units_.resume(state.units);
  FlowIndex flow = 0;
  auto user = users.begin();
  for (const State::Pending& p : state.pending) {
    Event event{p.kind, p.task, 0, 0};
    if (p.kind == EventKind::enter) {
      event.index = prepared_.flows[p.task];
      event.part = p.part;
    } else if (p.kind == EventKind::drained) {
      event.index = flow++;
      event.version = collectives_.version(event.index);
    } else if (p.kind == EventKind::shared_end) {
      event.index = *user++;
      event.version = shared_.version(event.index);
    }
    queue_.push(now_ + p.after, event);
  }
}

}  // namespace unity
