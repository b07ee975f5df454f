// Communications that become one with several parts (Communication::joined): the same devices in the same order do the
// same with further tensors, and pay the latency of the links once.
#pragma once

#include <compare>
#include <vector>

#include "core/plan/program.h"
#include "core/plan/task_pool.h"

namespace unity {

// Communications can be one where this is equal; not all_gather, and for sends to and from several join_sends.h.
struct JoinableAs {
  CollectiveKind kind;
  Monoid monoid;
  DType dtype;
  bool root_sends = true;  // of a reduce: the root has a summand of its own
  std::vector<DeviceId> devices;
  auto operator<=>(const JoinableAs&) const = default;
};
JoinableAs joinable_as(const Communication& communication);

// Positions of tasks in the pool, in order, whose communications become one, in the place of the one at `place`.
struct JoinedTasks {
  std::vector<std::size_t> tasks;
  std::size_t place = 0;
};

// Each one's dependencies become the joint one's, and whatever comes after one comes after that. None of them waits for
// another.
void join_communications(Program& program, std::vector<PooledTask>& pool, const std::vector<JoinedTasks>& groups);

// What is left to do when some have taken others in, with their dependencies. `becomes`: by task the one that it is
// part of now, or itself. Tasks keep their order, but for those that wait for what now comes later.
void keep_one_of_joined(Program& program, std::vector<PooledTask>& pool, const std::vector<std::size_t>& becomes);

}  // namespace unity
