// Which buffers of a device can share memory: those that are never in use at the same time, whatever the tasks take.
//
// A task starts after its dependencies have ended on all their devices, and after the task before it on the same stream
// of the same device; nothing else is taken for granted. Buffer b may take the place of buffer a when every task on a
// ends, by these orders alone and over any number of devices, before any task on b starts. Steps are apart from one
// another: the executor ends all tasks of one before it starts the next.
#pragma once

#include <array>
#include <vector>

#include "core/plan/program.h"

namespace unity {

class BufferOrder {
 public:
  // The order of the buffers of `device`. Cost: linear in the tasks and dependencies of the whole program.
  BufferOrder(const Program& program, DeviceId device);

  // False for a buffer that no task reads or writes.
  bool used(BufferId buffer) const;
  // Whether some first task on the buffer reads what no task of this step has written.
  bool read_first(BufferId buffer) const { return uses_[buffer.index()].read_first; }
  // Every use of `a` ends before any use of `b` starts. Both are used, on this device.
  bool precedes(BufferId a, BufferId b) const;

 private:
  static constexpr std::size_t kLanes = 3;         // by Stream
  using Clock = std::array<std::int32_t, kLanes>;  // how many tasks of each lane have ended
  struct Use {
    Clock first = {-1, -1, -1}, last = {-1, -1, -1};  // positions in the lanes, -1: not used there
    std::array<Clock, kLanes> known{};                // what has ended when the first task on it in that lane starts
    bool read_first = false;
  };
  void touch(BufferId buffer, std::size_t lane, std::int32_t position, const Clock& known, bool reads);

  std::vector<Use> uses_;  // by buffer
};

}  // namespace unity
