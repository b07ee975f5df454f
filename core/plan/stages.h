// The stages of a pipeline, read off a Program: devices that run a micro-batched operator together belong to one group,
// and the operators of a group fall into parts, a new one where what an operator needs has been on another group since.
#pragma once

#include <vector>

#include "core/plan/program.h"

namespace unity {

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

}  // namespace unity
