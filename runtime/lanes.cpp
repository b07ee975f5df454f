#include "runtime/lanes.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "runtime/comm/collectives.h"
#include "runtime/comm/wait.h"

namespace unity {
namespace {

// Tags of one communication's messages.
constexpr int kTagBits = 12;

}  // namespace

struct Lanes::Implementation {
  // The tasks of one stream of one device, run by one thread.
  struct Lane {
    DeviceId device;
    Stream stream = Stream::compute;
    std::vector<TaskId> tasks;
    std::vector<std::size_t> participant;  // of communications: which one this device is
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
        done(p.tasks.size()) {
    build();
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

  void communicate(TaskId id, std::size_t self) {
    const Communication& c = program.communications[static_cast<std::size_t>(program.tasks[id.index()].op)];
    std::vector<CollectiveBuffers> buffers(c.part_count());
    for (std::size_t k = 0; k < buffers.size(); ++k) {
      const Participant& p = c.part(k)[self];
      CollectiveBuffers& b = buffers[k];
      if (p.send.valid()) b.send = work.data(p.send), b.send_box = program.buffer(p.send).box;
      if (p.receive.valid()) b.receive = work.data(p.receive), b.receive_box = program.buffer(p.receive).box;
    }
    run_collective(c, self, buffers, held_type(c.dtype, precision), *communicator,
                   static_cast<std::int64_t>(id.value) << kTagBits);
  }

  bool run(Lane& lane, std::size_t i) {
    TaskId id = lane.tasks[i];
    const Task& task = program.tasks[id.index()];
    try {
      for (TaskId d : program.dependencies_of(task)) wait_for(d);
      std::int64_t start = info.trace ? now() : 0;
      if (task.kind == TaskKind::communicate)
        communicate(id, lane.participant[i]);
      else
        work.run(id, info);
      if (info.trace) lane.spans.push_back({id, lane.device, static_cast<std::uint8_t>(lane.stream), {start}, {now()}});
      if (done[id.index()].fetch_sub(1) == 1) announce();
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
      std::lock_guard lock(done_mutex);
      if (why.empty() && !failed.load()) return;
      if (!failed.exchange(true)) failure = why;
    }
    communicator->cancel();
    done_changed.notify_all();
  }

  void wait_for(TaskId id) {
    if (wait_briefly([&] { return done[id.index()].load() == 0; })) return;
    std::unique_lock lock(done_mutex);
    waiting.fetch_add(1);
    done_changed.wait(lock, [&] { return done[id.index()].load() == 0 || failed.load(); });
    waiting.fetch_sub(1);
    if (done[id.index()].load() != 0) throw Cancelled();
  }

  void announce() {
    if (waiting.load() == 0) return;
    { std::lock_guard lock(done_mutex); }
    done_changed.notify_all();
  }

  std::vector<Span> step(const StepInfo& i) {
    info = i;
    failed = false;
    epoch = std::chrono::steady_clock::now();
    for (std::size_t t = 0; t < done.size(); ++t) done[t].store(waits[t]);
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

  std::mutex mutex;
  std::condition_variable changed;  // a step starts or ends
  std::int64_t started = 0;
  std::size_t finished = 0;
  bool quit = false;
  std::mutex done_mutex;
  std::condition_variable done_changed;  // a task is done
  std::atomic<int> waiting{0};
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
