// Programs that hold one task, to measure it through the Executor, whatever the backend.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/plan/program.h"

namespace unity {

struct SingleTaskOptions {
  int sets = 4;     // of buffers: the task runs on each in turn
  int repeats = 3;  // on a set, one after another: the first with cold caches, the others with warm ones
  Bytes flush;      // what the caches hold: touched before the first set; 0: nothing is
  // A communication keeps its devices, among as many as the source has.
  bool in_place = false;
  // Behind each run of a broadcast, reduction or send the device where it ends sends an element to the one where it
  // begins: or the next would be under way before this one has arrived.
  bool answer = false;
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
// communication keeps its participants, as devices 0, 1, .. unless in place; another task runs on device 0.
SingleTaskProgram single_task_program(const Program& source, TaskId task, const SingleTaskOptions& options = {});

// Whether data go from one participant to the last, and nothing comes back.
bool one_way(CollectiveKind kind);

// Bytes of the buffers of a task, on all its devices.
Bytes bytes_touched(const Program& program, TaskId task);

// Programs of one task made from scratch, each on whole tensors of f32.
Program operator_program(const std::string& op, Attributes attributes, const std::vector<Shape>& inputs);
Program movement_program(TaskKind kind, const Dims& dims);  // copy, accumulate, zero
Program host_copy_program(bool to_host, const Dims& dims);  // between the device and its host, on the copy stream
Program update_program(const OptimizerSpec& optimizer, std::int64_t elements);
// `group` in the order of participants; all_gather and reduce_scatter in equal pieces, an all_to_all of the own piece
// to everyone. `elements` of the whole tensor, rounded down to such pieces, at least one each.
Program collective_program(CollectiveKind kind, std::span<const DeviceId> group, std::int64_t elements);
std::vector<DeviceId> first_devices(int count);

// A chain over two devices: tasks of `elements` each, with a send of one element between one and the next.
Program handover_program(int links, std::int64_t elements);

}  // namespace unity
