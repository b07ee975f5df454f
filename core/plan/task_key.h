// What a task does, as text: tasks with equal keys take equally long on equal devices. Device profiles
// (core/machine/profile.h) are keyed by it.
//
//   matmul(f32[32, 784], f32[784, 512]) -> f32[32, 512]      operator, local blocks of the operands
//   softmax{2}(f32[8, 64, 64]) -> f32[8, 64, 64]             with its attributes
//   add(0, 1) + relu(.) -> 2 of (f32[8, 64], f32[64]) -> f32[8, 64]         a chain (chain.h): its steps, its operands
//   copy(f32[32, 64] of f32[32, 256] to f32[32, 64])         the box, and the blocks it lies in; also accumulate,
//                                                            "copy to host", "copy from host"
//   zero(f32[784, 512])
//   update adamw(f32[784, 512])                              the kind of the optimizer
//   update embedding_gradient(f32[1000, 64], i32[32], f32[32, 64])      by rows
//   all_reduce of 2(f32[784, 512])                           the piece, or pieces, and the buffers where they are
//   larger
#pragma once

#include <string>
#include <vector>

#include "core/plan/program.h"

namespace unity {

std::string task_key(const Program& program, const Task& task);

// Keys of many tasks of one Program: faster. Not thread-safe.
class TaskKeys {
 public:
  explicit TaskKeys(const Program& program) : program_(program), operators_(program.ops.size()) {}
  // Valid until the next call.
  const std::string& of(const Task& task);

 private:
  void append_communication(const Communication& communication);

  const Program& program_;
  std::vector<std::string> operators_;  // by op: name and attributes; empty: not asked for yet
  std::string key_;
};

// Where a profile has a curve for tasks of this kind, instead of an entry for each: its name and the amount of this
// task; an empty name for compute tasks. Copies, accumulates and zeros count bytes of memory traffic, updates
// elements, communications bytes of the whole piece.
struct TaskCurve {
  std::string name;
  double amount = 0;
};
TaskCurve task_curve(const Program& program, const Task& task);

}  // namespace unity
