// The engine behind simulate(): one run of a prepared Program. It can be watched, and brought to where another run of
// a similar Program was (incremental/resimulate.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/collectives/running.h"
#include "simulator/devices/shared_compute.h"
#include "simulator/devices/unit_queue.h"
#include "simulator/engine/event_queue.h"
#include "simulator/memory_tracker.h"
#include "simulator/prepared.h"
#include "simulator/simulate.h"

namespace unity {

class Simulation;

class SimulationObserver {
 public:
  virtual ~SimulationObserver() = default;
  virtual void started(std::uint32_t task, Picoseconds now) = 0;
  virtual void ended(std::uint32_t task, Picoseconds now) = 0;
  // All that happens at a time is done. Simulation::resume() may be called here.
  virtual void settled(Simulation& simulation) = 0;
};

class Simulation {
 public:
  Simulation(const PreparedProgram& prepared, const Topology& topology, const SimulationOptions& options);

  SimulationResult run(SimulationObserver* observer = nullptr);

  // By link that the choices name, of what has run. Empty without SimulationOptions::links.
  const LinkRecord& links() const { return links_; }
  Picoseconds now() const { return now_; }
  std::size_t bytes() const;  // of memory

  // With which tasks have started and which have ended, all that what follows a settled time depends on. Times count
  // from then, tasks stand for all that has numbers of its own. Where two runs have equal states, they go on alike,
  // event by event: events of one time keep their order, too.
  enum class EventKind : std::uint8_t { end, shared_end, enter, drained, noticed };
  struct State {
    struct Pending {  // what will happen, in order
      EventKind kind;
      std::uint32_t task;
      std::uint32_t part;  // enter, drained: of the collective or copy
      Picoseconds after;
      bool operator==(const Pending&) const = default;
    };
    struct Collective {  // or copy between device and host; in the order of `pending`
      std::uint32_t task, stage, left;
      bool operator==(const Collective&) const = default;
    };
    std::vector<Pending> pending;
    std::vector<Collective> collectives;
    Network::State network;       // flows: `drained` of `pending`
    SharedCompute::State shared;  // users: `shared_end` of `pending`
    UnitQueue::State units;
    bool operator==(const State&) const = default;
  };
  // Not with SimulationOptions::steps.
  State state() const;
  // Without trace: tasks start and end as they did elsewhere, in the order in which they did, nothing else happens.
  void replay_start(std::uint32_t task);
  void replay_end(std::uint32_t task, Picoseconds at);
  // Then what runs goes on from this state at this time.
  void resume(const State& state, Picoseconds now);

 private:
  struct Event {
    EventKind kind;
    std::uint32_t index;    // end, noticed: task; shared_end: user; enter: collective or copy; drained: flow
    std::uint32_t part;     // enter: of the collective
    std::uint32_t version;  // shared_end, drained: stale when it differs
  };

  void start_ready();
  void start(std::uint32_t id, double slower);
  bool needs_unit(const Task& task) const;
  std::uint32_t helpers(const Task& task) const;
  std::size_t physical_of(const Task& task) const { return topology_.device(task.device).physical; }
  void start_communication(std::uint32_t id, double slower);
  void start_flow(std::uint32_t id);
  void proceed(std::optional<std::uint32_t> ended);
  void handle(const Event& event);
  void end(std::uint32_t id);
  void notice(const Task& ended, std::uint32_t follower);
  bool stale(const Event& event) const;
  SimulationResult result();

  const PreparedProgram& prepared_;
  const Program& program_;
  const Topology& topology_;
  SimulationOptions options_;
  SimulationObserver* observer_ = nullptr;
  std::vector<std::uint32_t> waits_for_;
  EventQueue<Event> queue_;
  RunningCollectives collectives_;
  SharedCompute shared_;
  UnitQueue units_;
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

}  // namespace unity
