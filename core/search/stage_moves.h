// Steps between pipelines: a cut elsewhere, another plan inside a stage, two stages for one or one for two, other
// micro-batches, another schedule.
#pragma once

#include <vector>

#include "core/search/staged_plan.h"

namespace unity {

// What all of a tensor-parallel group compute goes only to groups as large: values keep their copies. So either no
// operator has a plan of that kind, or all have, with one size of groups: 0 says none.
int copies_of(const IntraPlan& plan);

// Where cuts may lie (one past the last operator of each layer), which numbers of micro-batches there are, in order,
// and what of the schedule the options leave open.
struct StageMoves {
  const std::vector<std::size_t>& layer_ends;
  const std::vector<int>& micro_batches;
  bool order = false, overlap = false;
};

// What is one step from a plan.
std::vector<StagedPlan> neighbours(IntraPlans& plans, const StagedPlan& plan, const StageMoves& free);

// Of those that are pipelines: all stages data-parallel inside. Sums of gradients hide behind micro-batches better than
// the estimates know.
std::vector<StagedPlan> data_parallel_inside(IntraPlans& plans, const std::vector<StagedPlan>& pipelines);

}  // namespace unity
