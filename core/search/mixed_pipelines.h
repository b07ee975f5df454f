// Pipelines of which some operators take the batch at once, beside those that take micro-batches: `pipeline` and
// `batch` stand between them.
//
//   lookups      in tables, on the devices of their stage: of a whole batch a table is updated by rows (row_updates.h)
//   a beginning  of the first stage, or an end of the last, on all devices: what it takes longer to fill and drain the
//   or an end    pipeline, it is shorter, and tasks are larger; an end is awaited by all micro-batches
#pragma once

#include <vector>

#include "core/search/stage_estimate.h"
#include "core/search/stage_moves.h"

namespace unity {

// Of a plan of several stages, each with one part of the model, or of one stage. One list for lookups, one for
// beginnings and one for ends, in which each next group leaves fewer operators to the pipeline: where a group makes a
// plan slower, the next does even more so. Beginnings and ends are ends of layers; on all devices they are split in the
// way that is the fastest as estimated; what is left is shared out among the stages as it was, or by FLOPs anew.
using MixedPipelines = std::vector<std::vector<StagedPlan>>;
std::vector<MixedPipelines> mixed_pipelines(IntraPlans& plans, const StageEstimates& estimates, const StagedPlan& plan,
                                            const StageMoves& free, int devices);

// Picoseconds that a device takes to form gradients of all rows of the tables, which are spread over the devices, and
// to add them up once: what a micro-batch takes longer than lookups of the whole batch.
double time_of_dense_gradients(const IntraPlans& plans, const StrategyInput& input);

}  // namespace unity
