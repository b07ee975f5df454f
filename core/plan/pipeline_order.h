// The order in which the devices of a pipeline take micro-batches: a permutation of a Program's tasks.
//
// The micro-batched operators say what the stages are: devices that run one operator together belong to one group, and
// the operators of a group fall into parts, a new one where what an operator needs has been on another group since. A
// plain pipeline has one part on each of p groups, an interleaved one v parts. With s a group's position among p, and m
// micro-batches:
//
//   gpipe        m forward passes, then m backward passes (of several parts: part by part)
//                m micro-batches in flight; bubble (p - 1) / m of the ideal time
//   1f1b         min(p - 1 - s, m) forward passes, then one forward, one backward in turn, then the backward passes
//                left; at most p - s micro-batches in flight; the same bubble. One part for each group.
//   interleaved  forward passes of p micro-batches of a part, then of the next part; min(2 (p - 1 - s) + (v - 1) p, v
//   m)
//                to begin with (all of them when m = p), then in turn as above; bubble (p - 1) / (v m). p divides m.
//
// The passes of all groups are laid out in time, each after what it needs, with durations estimated from FLOPs and
// bytes; tasks are sorted by the end of their pass. What is no micro-batched operator (copies, sums, communications)
// goes with the latest that it depends on. Hence dependencies and, on every device, the order of communications agree
// among all participants, and no executor deadlocks. Updates stay at the end. Without micro-batches nothing changes.
#pragma once

#include "core/plan/program.h"
#include "core/plan/schedule.h"

namespace unity {

// Which micro-batched operators' devices form which stage.
struct PipelineStages {
  struct Part {
    int group = 0;   // position in the pipeline
    int number = 0;  // which of the group's parts
    bool operator==(const Part&) const = default;
  };
  int micro_batches = 1;
  std::vector<std::vector<DeviceId>> groups;  // in the order of the pipeline
  std::vector<int> part_counts;               // by group
  std::vector<Part> chain;                    // all parts, in the order in which data flow through them
  std::vector<int> place;                     // by op of the program: position in `chain`, -1: not micro-batched
};
PipelineStages find_stages(const Program& program);

// Error when the stages have not the form that the order needs.
Result<void> order_micro_batches(Program& program, PipelineOrder order);

}  // namespace unity
