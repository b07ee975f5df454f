// Programs that hold one task, to measure it through the Executor, whatever the backend.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/plan/program.h"

namespace unity {

struct SingleTaskOptions {
  int sets = 4;     // of buffers: the task runs on each in turn
  int repeats = 3;  // on a set, one after another: the first with cold caches, the others with warm ones
  Bytes flush;      // what the caches hold: touched before the first set; 0: nothing is
  // How the source's tensors are held (runtime/held_types.h), where that is not as their types say: those of f32 stay
  // so, and weights are weights. Null: as their types say.
  const std::vector<DType>* held = nullptr;
};

struct SingleTaskProgram {
  Program program;
  std::vector<std::vector<TaskId>> runs;             // by set, by repeat
  std::map<std::string, std::int64_t> index_bounds;  // by input
};

// The task of `source` with its attributes and its blocks where they lie in their logical tensors, over and over. A
// communication keeps its participants, as devices 0, 1, ..; another task runs on device 0.
SingleTaskProgram single_task_program(const Program& source, TaskId task, const SingleTaskOptions& options = {});

// Bytes of the buffers of a task, on all its devices.
Bytes bytes_touched(const Program& program, TaskId task);

// Programs of one task made from scratch, each on whole tensors of f32.
Program operator_program(const std::string& op, Attributes attributes, const std::vector<Shape>& inputs);
Program movement_program(TaskKind kind, const Dims& dims);  // copy, accumulate, zero
Program update_program(const OptimizerSpec& optimizer, std::int64_t elements);
Program collective_program(CollectiveKind kind, int devices, std::int64_t elements);

// A chain over two devices: tasks of `elements` each, with a send of one element between one and the next.
Program handover_program(int links, std::int64_t elements);

}  // namespace unity
