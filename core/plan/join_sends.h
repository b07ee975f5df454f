// Sends that become one all-to-all: from a device to several, to a device from several, or both, as where tables on
// some devices are looked up for a batch on others. One by one, each device would take the latency of the links for
// each of them; as one, all travel at once. What is received is the same.
//
// Sends are one where they come after the same task or the same task waits for them, and as many communications come
// before each on the longest way to it, so that none of them waits for another.
#pragma once

#include "core/base/units.h"
#include "core/plan/program.h"
#include "core/plan/task_pool.h"

namespace unity {

// The most that a send has: on links of 10 GB/s 26 us. Of more, latencies are a small part, and devices that take part
// in one all-to-all wait for one another.
inline constexpr Bytes kSmallSend{256 << 10};

// Of the tasks of a Program, which the pool holds in their order. Whether there are any.
bool join_sends(Program& program, std::vector<PooledTask>& pool);

}  // namespace unity
