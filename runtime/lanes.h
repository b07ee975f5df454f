// Runs a step of a Program with one thread for each stream of each of this process's devices; each runs the tasks of
// its stream in the Program's order, when their dependencies are done.
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
