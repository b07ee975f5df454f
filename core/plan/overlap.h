// Where tasks of a pass stand so that communications are hidden by what does not wait for them. A Program's streams
// take tasks in order, so a task that waits for a communication holds up all that stand behind it.
//
// The tasks of a pass (forward or backward, of the micro-batches that are taken at once) fall into segments: the k-th
// follows k communications on the longest way to it. In a segment come the micro-batches one after the other, so that
// each one's next communication runs while the next one is computed; and of each, behind what the next segment waits
// for, gradients of weights, for which no pass waits: as many of the latest, of this segment or the two before, as are
// about as much work as what the device communicates then; behind what it sends, all of the segment. (The sums of those
// that come earlier are hidden by what follows them.) What is computed again comes in the segment that uses it.
//
// Source: Wang et al. 2024, "Domino: Eliminating Communication in LLM Training via Generic Tensor Slicing and
// Overlapping".
#pragma once

#include <compare>
#include <vector>

#include "core/plan/program.h"
#include "core/plan/task_pool.h"

namespace unity {

// In the order in which tasks stand; what a task comes after never stands behind it.
struct OverlapPlace {
  int segment = 0;
  int micro = 0;  // of those that are taken at once
  bool behind = false;
  auto operator<=>(const OverlapPlace&) const = default;
};

// How long a task computes, about: in FLOPs of a device that does 16 of them for each byte of memory traffic.
inline double about_work(const Task& task) { return task.flops + 16 * task.bytes; }
// FLOPs of a device while it sends a byte: 15 TFLOP/s, 30 GB/s.
inline constexpr double kFlopsPerByteSent = 500;

// By task: whether it is of the backward pass, and only updates read its results, through sums, copies and
// communications at most.
std::vector<bool> gradients_of_weights(const std::vector<PooledTask>& tasks);

// By task, with so many micro-batches (at least 1) taken at once.
std::vector<OverlapPlace> overlap_places(const Program& program, const std::vector<PooledTask>& tasks, int at_once);

}  // namespace unity
