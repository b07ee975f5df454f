// Collectives of gradients, for which only updates wait, give way to what the backward pass waits for. A stream of
// communications takes them in order: a bucket of gradients that starts shortly before the statistics of a batch norm
// are summed up holds up these, and with them the pass. It goes behind the next communication of the pass after which
// its devices compute long enough for it, before the pass communicates again; where there is no such gap, it stays.
// What a collective fills of a gap is not there for the next one. Times are estimates (overlap.h), those of collectives
// with a margin.
//
// Source: priorities of communications, as in Peng et al. 2019, "A Generic Communication Scheduler for Distributed DNN
// Training Acceleration" (ByteScheduler); here in an order fixed beforehand, the same on all devices.
#pragma once

#include <vector>

#include "core/plan/program.h"
#include "core/plan/task_pool.h"

namespace unity {

// Of the tasks of a Program, which the pool holds in their order. Whether any has moved; nothing else changes.
bool give_way(const Program& program, std::vector<PooledTask>& pool);

}  // namespace unity
