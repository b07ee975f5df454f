// How far the streams of GPUs have come, as the GPUs write it into memory of the host: for messages about what waits.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/base/ids.h"
#include "runtime/cuda/resources.h"

namespace unity::cuda {

class Milestones {
 public:
  Milestones() = default;
  // `gpus`: of devices of this process; `tasks`: of the program.
  Milestones(const std::map<DeviceId, int>& gpus, std::size_t tasks);

  // Enqueues on a stream of the device's GPU, in captures, too: when the stream comes here, the task is reached.
  void pass(TaskId task, DeviceId device, int gpu, cudaStream_t stream) const;
  // Each task that a device reached last, once; whether it has ended is not known.
  std::vector<TaskId> reached() const;
  void reset();  // while nothing runs

 private:
  std::map<int, Memory> numbers_;           // by GPU: from 0 on, of which a task's own is copied
  std::map<DeviceId, PinnedHandle> place_;  // where to; -1 at first
};

}  // namespace unity::cuda
