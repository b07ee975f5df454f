// How each operator is split inside a stage, chosen for all of them at once: the intra-operator pass of Alpa (Zheng et
// al., OSDI 2022, section 4). An operator is split along one axis or two over all devices (two: Alpa's two-dimensional
// meshes), along one over some, or not at all, and what is linear may pass on sums that are not added up; what it takes
// so, and what it takes to lay out anew each value that is read in another layout than it is made in, IntraCosts says.
// Where Alpa solves an integer program, the least sum is found by eliminating one operator after the other
// (table_elimination.h), which is exact where few values are alive at a time, as in chains with branches.
#pragma once

#include <vector>

#include "core/search/intra_costs.h"
#include "core/search/submesh.h"

namespace unity {

struct ChosenShardings {
  std::vector<OperandShapes> operands;  // by operator, as it reads them
  std::int64_t time = 0;  // of a micro-batch, with its share of what is done once an iteration; picoseconds
  bool exact = true;
};

// For the whole model on these devices, in so many micro-batches; of the kinds of parallelism that the options allow.
// `uneven`: parts may differ by an element, but for those of the batch.
ChosenShardings choose_shardings(const IntraPlans& plans, const IntraCosts& costs, const StrategyInput& input,
                                 int micro_batches, const Resources& devices, bool uneven = true);

// For each kind of submesh several, since estimates may err: for one micro-batch and for as many as a pipeline may
// have, in equal parts and not. From now on they are among the ways to split the model that there are
// (IntraPlans::of_width), as kinds 1 .. of IntraPlan::chosen; how many kinds.
int add_chosen_shardings(IntraPlans& plans, const IntraCosts& costs, const StrategyInput& input,
                         const std::vector<Submesh>& meshes, const std::vector<int>& micro_batches);

}  // namespace unity
