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

// Into how many micro-batches a model may be cut, for so many stages at most; ascending. Those of the options, and
// none.
std::vector<int> micro_batch_counts(const IntraPlans& plans, const StrategyInput& input, int stages);
// Whether a plan has as many as the options say; of one stage it may have none.
bool is_asked_for(const StagedPlan& plan, const SearchOptions& options);

// By number of stages: stages of as many devices each, with data parallelism inside, and as many micro-batches as
// stages or twice as many.
std::vector<std::vector<StagedPlan>> even_pipelines(IntraPlans& plans, int devices, Bytes bucket, int overlap);

// One stage that splits all its operators alike, also by columns and rows: whole, and in two micro-batches; gradients
// of weights come behind communications.
std::vector<StagedPlan> tensor_plans(IntraPlans& plans, int devices, Bytes bucket);

// Two to four even stages that split all their operators alike, also by columns and rows, with two micro-batches at
// once: what one communicates inside a stage is hidden behind the other, which estimates do not know. `micro_batches`:
// 0: four for each stage.
std::vector<StagedPlan> tensor_pipelines(IntraPlans& plans, int devices, int micro_batches, Bytes bucket);

}  // namespace unity
