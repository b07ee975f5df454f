// What of weights that replicas store in parts (ZeRO; Rajbhandari et al., 2020) is held whole while a step runs:
//
//   stage 1   weights and gradients: a weight is gathered once a step, where it is used first, and stays until nothing
//             reads it; its gradients are added up whole, over micro-batches, and then scattered
//   stage 2   weights: each micro-batch's gradients are scattered, and the parts are added up; whole ones take no more
//             room than the two largest
//   stage 3   neither: a gathered weight makes room for those that come after it, and is gathered again where it is
//             read again: in the backward pass, by the next micro-batch
//
// Parts are what is there between steps, in all of them: of weights and optimizer states. What is computed is the same,
// but for the order of sums.
#pragma once

#include <vector>

#include "core/plan/program.h"
#include "core/plan/task_pool.h"

namespace unity {

// All take the tasks of a Program in the order in which they run. Whether there was anything to do.

// Stage 2. Gradients of a micro-batch by several operators are added up before they are scattered.
bool scatter_each_gradient(Program& program, std::vector<PooledTask>& pool);

// Stage 2, when it is said which collectives are joined (buckets.h): whole gradients have room for as many bytes as the
// two largest of a device take. The next one is computed when those before it that take its room are scattered.
bool limit_whole_gradients(const Program& program, std::vector<PooledTask>& pool);

// Stage 3, per group of devices: gathered weights have room for as many bytes as the two largest take together. Those
// read least recently make room, and the next one is gathered while what was gathered before it is computed with.
bool gather_again(Program& program, std::vector<PooledTask>& pool);

}  // namespace unity
