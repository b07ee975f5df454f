// Simulates a Program that is almost one whose simulation was recorded, such as that of a plan in which one operator's
// mapping, one weight's layout or one block was changed. The result is that of simulate(), bit for bit.
//
// What both Programs have in common is found task by task (alignment.h). Wherever the new run comes to a settled time
// at which the same tasks have started and ended as at a moment that the recording has kept, and the engine's states
// are equal (Simulation::State: what runs has equally much left, at equal rates, over the same links), both go on alike
// from there, only `shift` later, until something happens that is not common: a task of one Program alone becomes
// ready, or a task that waits for others than before. Up to the last kept moment before that, starts and ends are
// copied with the shift, and only memory is accounted for; then the engine goes on. In particular everything before the
// first influence of the change is copied. Equal sets of tasks are told by 64-bit hashes; a collision would fail a
// check, not give wrong times.
//
// When to use what: folding (folding/symmetry.h) needs no recording and is a hundred times faster where machine and
// plan are symmetric, but a change that breaks the symmetry ends that; this one needs no symmetry. What it reuses is
// most of a run where the change delays all streams alike, or none; where it delays some (computation that waits for a
// communication behind which others have piled up), nothing can be copied until they have caught up. What it saves is
// the engine's and the network's work: aligning a task, copying its times and accounting for its memory cost about as
// much as the engine takes for a task that crosses no contended link. So it pays where many communications share links,
// and not for large programs of computation and a few collectives, which simulate() takes as quickly. Not for transfers
// by steps (SimulationOptions::steps).
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/hash.h"
#include "simulator/simulation.h"

namespace unity {

struct TaskInterval {
  Picoseconds start, end;
  bool operator==(const TaskInterval&) const = default;
};

// A simulation without trace, and what another one can reuse of it.
struct Recording {
  struct Moment {
    Picoseconds now;
    std::size_t log_end = 0;  // what has happened
    Hash happened = 0;        // sum of hashes of that
    Simulation::State state;
  };
  const PreparedProgram* prepared = nullptr;
  SimulationOptions options;
  SimulationResult result;
  std::vector<TaskInterval> tasks;  // by task
  std::vector<std::uint32_t> log;   // twice a task: it starts; one more: it ends; in order
  std::vector<Moment> moments;      // by time; the first when what can start at once has started, the last at the end
  std::vector<Hash> keys;           // task_keys()
};

// About `moments` moments are kept. The prepared program, its Program, cache and topology must outlive the recording.
Recording record(const PreparedProgram& prepared, const Topology& topology, const SimulationOptions& options,
                 std::size_t moments = 256);

struct Resimulation {
  SimulationResult result;
  std::vector<TaskInterval> tasks;         // by task
  std::int64_t reused = 0, simulated = 0;  // tasks whose end was copied; the others
  std::int64_t jumps = 0;                  // from one kept moment to another
};

// `changed` was prepared with the recording's options on its topology, best with the same CollectiveCache.
Resimulation resimulate(const PreparedProgram& changed, const Recording& recording, const Topology& topology);

}  // namespace unity
