#include "runtime/lanes.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/comm/collectives.h"
#include "runtime/comm/shared_collective.h"
#include "runtime/comm/wait.h"

namespace unity {
namespace {

// Tags of one communication's messages.
constexpr int kTagBits = 12;

// In place of the number of lanes that a task waits for, once the step is given up: far below anything else.
constexpr int kGivenUp = -1'000'000;

}  // namespace

struct Lanes::Implementation {
  // The tasks of one stream of one device, run by one thread.
  struct Lane {
    DeviceId device;
    Stream stream = Stream::compute;
    std::vector<TaskId> tasks;
    std::vector<std::size_t> participant;  // of communications: which one this device is
    std::vector<Span> spans;

    void add_span(TaskId task, std::int64_t start, std::int64_t end) {
      spans.push_back({task, device, static_cast<std::uint8_t>(stream), {start}, {end}});
    }
  };

  // A communication among devices of this process: the first lane that sees that all it needs is there starts it.
  struct Shared {
    std::optional<SharedCollective> collective;
    std::vector<TaskId> after;                          // what its participants communicate before
    std::atomic<std::int64_t> begun{kNever}, ended{0};  // for traces
  };
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

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
        done(p.tasks.size()),
        shared(p.communications.size()) {
    build();
    share_collectives();
    threads.reserve(lanes.size());
    for (Lane& lane : lanes) threads.emplace_back([this, &lane] { serve(lane); });
  }

  ~Implementation() {
    {
      std::lock_guard lock(mutex);
      quit = true;
    }
    changed.notify_all();
    for (std::thread& t : threads) t.join();
  }

  void build() {
    std::map<std::pair<int, Stream>, std::size_t> index;
    waits.resize(program.tasks.size());
    for (std::size_t t = 0; t < program.tasks.size(); ++t) {
      TaskId id(static_cast<std::int64_t>(t));
      bool communicates = program.tasks[t].kind == TaskKind::communicate;
      std::vector<DeviceId> devices = program.devices_of(id);
      for (std::size_t i = 0; i < devices.size(); ++i) {
        if (!processes.has(devices[i], program.devices)) continue;
        auto [it, inserted] = index.try_emplace({devices[i].value, program.tasks[t].stream}, lanes.size());
        if (inserted) lanes.push_back({devices[i], program.tasks[t].stream, {}, {}, {}});
        lanes[it->second].tasks.push_back(id);
        lanes[it->second].participant.push_back(i);
        ++waits[t];
      }
      // What another process does, this one learns by messages alone.
      for (TaskId d : program.dependencies_of(program.tasks[t]))
        UNITY_CHECK(communicates || waits[t] == 0 || waits[d.index()] > 0,
                    "task {} ({}) depends on task {} of another process", id, program.task_name(id), d);
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
    for (const Lane& lane : lanes)
      for (std::size_t i = 0; i < lane.tasks.size(); ++i)
        if (Shared* s = shared_of(lane.tasks[i])) {
          waits[lane.tasks[i].index()] = 1;
          if (i > 0) s->after.push_back(lane.tasks[i - 1]);
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

  // A lane's thread: waits for a step, runs its tasks, reports.
  void serve(Lane& lane) {
    std::int64_t served = 0;
    while (true) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return quit || started > served; });
        if (quit) return;
        served = started;
      }
      lane.spans.clear();
      for (std::size_t i = 0; i < lane.tasks.size() && !failed.load(); ++i)
        if (!run(lane, i)) break;
      {
        std::lock_guard lock(mutex);
        if (++finished == lanes.size()) changed.notify_all();
      }
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

  void take_part(Lane& lane, TaskId id, Shared& s) {
    for (TaskId before : s.after) wait_for(before);
    if (info.trace) {
      std::int64_t start = now(), first = s.begun.load();
      while (start < first && !s.begun.compare_exchange_weak(first, start)) {
      }
    }
    if (s.collective->help()) {
      if (info.trace) s.ended = now();
      if (done[id.index()].fetch_sub(1) == 1) done[id.index()].notify_all();
    } else {
      wait_for(id);
    }
    if (info.trace) lane.add_span(id, s.begun, s.ended);
  }

  bool run(Lane& lane, std::size_t i) {
    TaskId id = lane.tasks[i];
    const Task& task = program.tasks[id.index()];
    try {
      for (TaskId d : program.dependencies_of(task)) wait_for(d);
      if (Shared* s = shared_of(id)) {
        take_part(lane, id, *s);
        return true;
      }
      std::int64_t start = info.trace ? now() : 0;
      if (task.kind == TaskKind::communicate)
        communicate(id, lane.participant[i]);
      else
        work.run(id, info);
      if (info.trace) lane.add_span(id, start, now());
      if (done[id.index()].fetch_sub(1) == 1) done[id.index()].notify_all();
      return true;
    } catch (const Cancelled&) {
      fail(processes.failure());
    } catch (const std::exception& e) {
      fail(fmt::format("task {} ({}) on device {}: {}", id, program.task_name(id), lane.device, e.what()));
    }
    return false;
  }

  // The first failure counts; all that wait give up.
  void fail(const std::string& why) {
    {
      std::lock_guard lock(failure_mutex);
      if (why.empty() && !failed.load()) return;
      if (!failed.exchange(true)) failure = why;
    }
    communicator->cancel();
    for (std::atomic<int>& d : done) {
      if (d.exchange(kGivenUp) != 0) d.notify_all();
    }
  }

  void wait_for(TaskId id) {
    if (await(done[id.index()], [](int left) { return left <= 0; }) < 0) throw Cancelled();
  }

  std::vector<Span> step(const StepInfo& i) {
    info = i;
    failed = false;
    epoch = std::chrono::steady_clock::now();
    for (std::size_t t = 0; t < done.size(); ++t) done[t].store(waits[t]);
    for (Shared& s : shared)
      if (s.collective) s.collective->reset(), s.begun = kNever;
    {
      std::lock_guard lock(mutex);
      finished = 0;
      ++started;
    }
    changed.notify_all();
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return finished == lanes.size(); });
    }
    if (failed.load()) {
      if (std::string other = processes.failure(); !other.empty()) throw ProcessFailure(other);
      communicator->reset();
      throw std::runtime_error(failure);
    }
    std::vector<Span> spans;
    for (const Lane& lane : lanes) spans.insert(spans.end(), lane.spans.begin(), lane.spans.end());
    return spans;
  }

  const Program& program;
  Precision precision;
  Processes& processes;
  Work work;
  std::unique_ptr<Communicator> communicator;
  std::vector<Lane> lanes;
  std::vector<int> waits;              // by task: how many lanes run it
  std::vector<std::atomic<int>> done;  // by task: lanes that have not run it yet in this step
  std::vector<Shared> shared;          // by communication

  std::mutex mutex;
  std::condition_variable changed;  // a step starts or ends
  std::int64_t started = 0;
  std::size_t finished = 0;
  bool quit = false;
  std::mutex failure_mutex;
  std::atomic<bool> failed{false};
  std::string failure;
  StepInfo info;
  std::chrono::steady_clock::time_point epoch;
  std::vector<std::thread> threads;
};

Lanes::Lanes(const Program& program, Precision precision, Processes& processes, Work work)
    : implementation_(std::make_unique<Implementation>(program, precision, processes, std::move(work))) {}
Lanes::~Lanes() = default;

std::vector<Span> Lanes::step(const StepInfo& info) { return implementation_->step(info); }

}  // namespace unity
