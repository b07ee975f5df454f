// Operators in layers of about equal FLOPs, and pipelines of even stages.
#pragma once

#include <cstddef>
#include <vector>

#include "core/search/staged_plan.h"

namespace unity {

// Of so many layers, or as many as there are operators, with few bytes between them: one past the last operator of
// each.
std::vector<std::size_t> cluster_layers(const IntraPlans& plans, int layers);
// Whether so many layers have about as many FLOPs each.
bool are_even(const IntraPlans& plans, const std::vector<std::size_t>& layer_ends, int layers);

// By number of stages: stages of as many devices each, with data parallelism inside, and as many micro-batches as
// stages or twice as many.
std::vector<std::vector<StagedPlan>> even_pipelines(IntraPlans& plans, int devices, Bytes bucket, int overlap);

}  // namespace unity
