// Runs a step of a Program: each stream of each of this process's devices, a lane, runs its tasks in the Program's
// order, each when its dependencies are done.
//
// Where there is a core for each lane, or a device's kernels have several threads, a lane has a thread of its own.
// Where devices share cores (more lanes than cores, one thread for each device's kernels), there is a thread for each
// core, which takes what is ready: communications first, as others wait for them, then what follows on its last lane,
// then what waits longest. Nothing is interrupted, and no thread waits for a core, which on two cores costs more than
// most small tasks.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/plan/program.h"
#include "runtime/backend.h"
#include "runtime/comm/communicator.h"

namespace unity {

class Lanes {
 public:
  struct Work {
    std::function<void(TaskId task, const StepInfo& info)> run;  // any task but a communication
    std::function<void*(BufferId buffer)> data;                  // of buffers of this process's devices
    int threads = 1;                                             // that `run` uses, with the one that calls it
  };
  // All must outlive it.
  Lanes(const Program& program, Precision precision, Processes& processes, Work work);
  ~Lanes();

  // As Backend::step.
  std::vector<Span> step(const StepInfo& info);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace unity
