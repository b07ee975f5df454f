#include "runtime/lanes.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/comm/collectives.h"
#include "runtime/comm/shared_collective.h"
#include "runtime/comm/wait.h"
#include "runtime/cpu/threads.h"
#include "runtime/ready_queue.h"

namespace unity {
namespace {

// Tags of one communication's messages.
constexpr int kTagBits = 12;

// For how long a thread that has a core of its own stays awake when it finds nothing to do. To wake it up takes as long
// as some dozen small tasks.
constexpr std::chrono::microseconds kOwnCore{1000};

constexpr std::uint32_t kNoLane = std::numeric_limits<std::uint32_t>::max();

}  // namespace

struct Lanes::Implementation {
  struct Lane {
    DeviceId device;
    Stream stream = Stream::compute;
    std::size_t queue = 0;
  };

  // A communication among devices of this process: all help that are ready to.
  struct Shared {
    std::optional<SharedCollective> collective;
    std::atomic<std::int64_t> begun{kNever};  // for traces
  };
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  struct alignas(64) Worker {
    ReadyQueue& queue;
    std::vector<ReadyTask> fresh;  // for its own queue, by what it has just done
    std::vector<Span> spans;
  };

  Implementation(const Program& p, Precision f, Processes& g, Work w)
      : program(p),
        precision(f),
        processes(g),
        work(std::move(w)),
        communicator(make_communicator(p.devices, g,
                                       [this](std::int64_t tag) {
                                         TaskId task(tag >> kTagBits);
                                         return fmt::format("task {} ({})", task, program.task_name(task));
                                       })),
        local(p.tasks.size()),
        followers(p.tasks.size()),
        missing_at_first(p.tasks.size()),
        missing(p.tasks.size()),
        running_at_first(p.tasks.size()),
        running(p.tasks.size()),
        shared(p.communications.size()) {
    find_lanes();
    order_tasks();
    share_collectives();
    make_workers();
  }

  ~Implementation() { quit(); }

  void quit() {
    for (ReadyQueue& queue : queues) queue.close();
    for (std::thread& t : threads) t.join();
  }

  // The tasks on each of this process's devices' lanes.
  void find_lanes() {
    std::map<std::pair<int, Stream>, std::uint32_t> index;
    for (std::size_t t = 0; t < program.tasks.size(); ++t) {
      TaskId id(static_cast<std::int64_t>(t));
      const Task& task = program.tasks[t];
      std::vector<DeviceId> devices = program.devices_of(id);
      for (std::size_t i = 0; i < devices.size(); ++i) {
        if (!processes.has(devices[i], program.devices)) continue;
        auto [it, inserted] =
            index.try_emplace({devices[i].value, task.stream}, static_cast<std::uint32_t>(lanes.size()));
        if (inserted) lanes.push_back({devices[i], task.stream});
        local[t].push_back({id, it->second, static_cast<std::uint32_t>(i), task.kind == TaskKind::communicate});
      }
      // What another process does, this one learns by messages alone.
      for (TaskId d : program.dependencies_of(task))
        UNITY_CHECK(task.kind == TaskKind::communicate || local[t].empty() || !local[d.index()].empty(),
                    "task {} ({}) depends on task {} of another process", id, program.task_name(id), d);
    }
  }

  // A task follows what it depends on and what its lanes do before it: a communication with another process, too,
  // starts once all of this process's participants are ready.
  void order_tasks() {
    std::vector<TaskId> last(lanes.size());
    for (std::size_t t = 0; t < program.tasks.size(); ++t) {
      if (local[t].empty()) continue;
      TaskId id(static_cast<std::int64_t>(t));
      auto follow = [&](TaskId before) {
        if (!before.valid() || local[before.index()].empty()) return;
        followers[before.index()].push_back(id);
        ++missing_at_first[t];
      };
      for (TaskId d : program.dependencies_of(program.tasks[t])) follow(d);
      for (const ReadyTask& r : local[t]) follow(std::exchange(last[r.lane], id));
      running_at_first[t] = static_cast<int>(local[t].size());
    }
  }

  // Among devices of this process alone, data need not travel.
  void share_collectives() {
    for (std::size_t c = 0; c < shared.size(); ++c) {
      const Communication& communication = program.communications[c];
      if (!std::all_of(communication.participants.begin(), communication.participants.end(),
                       [&](const Participant& p) { return processes.has(p.device, program.devices); }))
        continue;
      std::vector<std::vector<CollectiveBuffers>> buffers(communication.part_count());
      for (std::size_t part = 0; part < buffers.size(); ++part)
        for (const Participant& p : communication.part(part)) buffers[part].push_back(buffers_of(p));
      shared[c].collective.emplace(communication, std::move(buffers), held_type(communication.dtype, precision));
    }
    for (std::size_t t = 0; t < program.tasks.size(); ++t)
      if (shared_of(TaskId(static_cast<std::int64_t>(t)))) running_at_first[t] = 1;  // until the last part is done
  }

  // What waits for messages keeps its thread, so all lanes have one then.
  void make_workers() {
    const auto cores = static_cast<std::size_t>(cpu::available_cores());
    const bool share = processes.size() == 1 && work.threads == 1 && lanes.size() > cores;
    for (std::size_t q = 0; q < (share ? 1 : lanes.size()); ++q) queues.emplace_back(share ? kOwnCore : kBriefly);
    for (std::size_t l = 0; l < lanes.size() && !share; ++l) lanes[l].queue = l;
    helpers = share ? cores : lanes.size();
    workers.reserve(helpers);
    for (std::size_t w = 0; w < helpers; ++w) workers.push_back({queues[share ? 0 : w], {}, {}});
    try {
      for (Worker& w : workers) threads.emplace_back([this, &w] { serve(w); });
    } catch (const std::system_error& error) {
      const std::size_t begun = threads.size();
      quit();
      throw_input_error("the executor's threads: the system starts {} of {}: {}", begun, helpers, error.what());
    }
  }

  Shared* shared_of(TaskId id) {
    const Task& task = program.tasks[id.index()];
    if (task.kind != TaskKind::communicate) return nullptr;
    Shared& s = shared[static_cast<std::size_t>(task.op)];
    return s.collective ? &s : nullptr;
  }

  std::int64_t now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - epoch).count() *
           1000;
  }

  // A worker's thread. Once a step has failed, what is ready is given up.
  void serve(Worker& worker) {
    std::uint32_t lane = kNoLane;
    while (std::optional<ReadyTask> ready = worker.queue.take(worker.fresh, lane)) {
      lane = ready->lane;
      if (!failed.load()) run(*ready, worker);
      if (open.fetch_sub(1) > 1) continue;
      std::lock_guard lock(mutex);
      ended = true;
      changed.notify_all();
    }
  }

  CollectiveBuffers buffers_of(const Participant& p) {
    CollectiveBuffers buffers;
    if (p.send.valid()) buffers.send = work.data(p.send), buffers.send_box = program.buffer(p.send).box;
    if (p.receive.valid()) buffers.receive = work.data(p.receive), buffers.receive_box = program.buffer(p.receive).box;
    return buffers;
  }

  void communicate(TaskId id, std::size_t self) {
    const Communication& c = program.communications[static_cast<std::size_t>(program.tasks[id.index()].op)];
    std::vector<CollectiveBuffers> buffers;
    for (std::size_t part = 0; part < c.part_count(); ++part) buffers.push_back(buffers_of(c.part(part)[self]));
    run_collective(c, self, buffers, held_type(c.dtype, precision), *communicator,
                   static_cast<std::int64_t>(id.value) << kTagBits);
  }

  void add_span(Worker& worker, const ReadyTask& ready, std::int64_t start, std::int64_t end) {
    const Lane& lane = lanes[ready.lane];
    worker.spans.push_back({ready.task, lane.device, static_cast<std::uint8_t>(lane.stream), {start}, {end}});
  }

  // Of a communication among devices of this process; whoever does its last part ends it for all.
  void help(const ReadyTask& ready, Shared& s, Worker& worker) {
    if (info.trace) {
      std::int64_t start = now(), first = s.begun.load();
      while (start < first && !s.begun.compare_exchange_weak(first, start)) {
      }
    }
    if (!s.collective->help()) return;
    if (info.trace)
      for (const ReadyTask& r : local[ready.task.index()]) add_span(worker, r, s.begun, now());
    end(ready.task, worker);
  }

  void run(const ReadyTask& ready, Worker& worker) {
    TaskId id = ready.task;
    try {
      if (Shared* s = shared_of(id)) return help(ready, *s, worker);
      std::int64_t start = info.trace ? now() : 0;
      if (ready.communicates)
        communicate(id, ready.participant);
      else
        work.run(id, info);
      if (info.trace) add_span(worker, ready, start, now());
      end(id, worker);
    } catch (const Cancelled&) {
      fail(processes.failure());
    } catch (const std::exception& e) {
      fail(fmt::format("task {} ({}) on device {}: {}", id, program.task_name(id), lanes[ready.lane].device, e.what()),
           dynamic_cast<const InputError*>(&e) != nullptr);
    }
  }

  // On one of its lanes.
  void end(TaskId id, Worker& worker) {
    if (running[id.index()].fetch_sub(1) > 1) return;
    for (TaskId f : followers[id.index()])
      if (missing[f.index()].fetch_sub(1) == 1) start(f, &worker);
  }

  // Whose dependencies are done.
  void start(TaskId id, Worker* worker) {
    std::size_t lanes_of = local[id.index()].size();
    if (shared_of(id)) lanes_of = std::min(lanes_of, helpers);
    open.fetch_add(static_cast<std::int64_t>(lanes_of));
    for (std::size_t i = 0; i < lanes_of; ++i) {
      const ReadyTask& ready = local[id.index()][i];
      ReadyQueue& queue = queues[lanes[ready.lane].queue];
      if (worker && &worker->queue == &queue)
        worker->fresh.push_back(ready);
      else
        queue.add(ready);
    }
  }

  // The first failure counts; all that wait give up.
  void fail(const std::string& why, bool by_input = false) {
    {
      std::lock_guard lock(mutex);
      if (!failed.exchange(true)) failure = why, failed_by_input = by_input;
    }
    communicator->cancel();
  }

  std::vector<Span> step(const StepInfo& i) {
    info = i;
    failed = false, ended = false;
    epoch = std::chrono::steady_clock::now();
    for (std::size_t t = 0; t < missing.size(); ++t) missing[t] = missing_at_first[t], running[t] = running_at_first[t];
    for (Shared& s : shared)
      if (s.collective) s.collective->reset(), s.begun = kNever;
    for (Worker& w : workers) w.spans.clear();
    open = 1;  // this thread, until all that can start has started
    for (std::size_t t = 0; t < missing.size(); ++t)
      if (missing_at_first[t] == 0) start(TaskId(static_cast<std::int64_t>(t)), nullptr);
    if (open.fetch_sub(1) > 1) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return ended; });
    }
    if (failed.load()) {
      if (std::string other = processes.failure(); !other.empty()) throw ProcessFailure(other);
      communicator->reset();
      if (failed_by_input) throw InputError(failure);
      throw std::runtime_error(failure);
    }
    UNITY_CHECK(std::all_of(missing.begin(), missing.end(), [](const auto& m) { return m.load() == 0; }),
                "tasks wait for one another");
    std::vector<Span> spans;
    for (const Worker& w : workers) spans.insert(spans.end(), w.spans.begin(), w.spans.end());
    return spans;
  }

  const Program& program;
  Precision precision;
  Processes& processes;
  Work work;
  std::unique_ptr<Communicator> communicator;
  std::vector<Lane> lanes;
  // By task:
  std::vector<std::vector<ReadyTask>> local;   // what its lanes here do of it
  std::vector<std::vector<TaskId>> followers;  // that wait for it, some of them twice
  std::vector<int> missing_at_first;           // of how many it is a follower
  std::vector<std::atomic<int>> missing;       // which are not done yet in this step
  std::vector<int> running_at_first;           // lanes that have to run it
  std::vector<std::atomic<int>> running;       // and have not yet in this step
  std::vector<Shared> shared;                  // by communication
  std::deque<ReadyQueue> queues;
  std::size_t helpers = 0;  // threads that may help with a communication
  std::vector<Worker> workers;
  StepInfo info;
  std::chrono::steady_clock::time_point epoch;

  std::atomic<std::int64_t> open{0};  // tasks that are ready or run
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;  // the step has
  std::atomic<bool> failed{false};
  std::string failure;
  bool failed_by_input = false;  // what a task threw was an InputError
  std::vector<std::thread> threads;
};

Lanes::Lanes(const Program& program, Precision precision, Processes& processes, Work work)
    : implementation_(std::make_unique<Implementation>(program, precision, processes, std::move(work))) {}
Lanes::~Lanes() = default;

std::vector<Span> Lanes::step(const StepInfo& info) { return implementation_->step(info); }

}  // namespace unity
