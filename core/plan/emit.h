// Appends tasks and buffers to a Program. Used by lowering only.
#pragma once

#include <vector>

#include <absl/container/inlined_vector.h>

#include "core/plan/program.h"

namespace unity {

using TaskList = absl::InlinedVector<TaskId, 2>;

inline void append(TaskList& to, const TaskList& from) { to.insert(to.end(), from.begin(), from.end()); }

class Emitter {
 public:
  explicit Emitter(Program& program) : program_(program) {}

  Phase phase = Phase::forward;

  std::int32_t tensor(ProgramTensor t);
  BufferId buffer(std::int32_t tensor, DeviceId device, Box box, BufferCategory category, int partial = 0);
  TaskId compute(std::int32_t op, DeviceId device, const std::vector<BufferId>& inputs,
                 const std::vector<BufferId>& outputs, TaskList after, double flops, int micro = 0);
  TaskId copy(BufferId from, BufferId to, const Box& box, TaskList after);
  TaskId accumulate(BufferId from, BufferId to, const Box& box, TaskList after);
  TaskId zero(BufferId buffer, TaskList after);
  TaskId update(const std::vector<BufferId>& operands, TaskList after);
  TaskId communicate(Communication communication, TaskList after);

  Program& program() { return program_; }

 private:
  TaskId add(Task task, const std::vector<BufferId>& operands, TaskList after);
  Program& program_;
  std::vector<BufferId> operands_;  // of the task that is made
  std::vector<Shape> shapes_;       // of what it reads
};

}  // namespace unity
