// Pipelines: a model's operators in order, cut into stages, with its batch in micro-batches.
#pragma once

#include <vector>

#include "core/graph/pcg.h"
#include "core/machine/mapping.h"

namespace unity {

// `pipeline(dim, micro_batches)` after every leaf that walks the batch (dimension 0 of the first input). Error when the
// batch does not divide, or an operator needs the whole of it.
Result<Pcg> with_micro_batches(const Pcg& pcg, int micro_batches);

// For every node, which of as many consecutive stages as there are speeds it belongs to (parallelization operators:
// -1). Stages have FLOPs about in proportion to their speeds: each cut lies within a tenth of a stage of its place by
// FLOPs, where the fewest bytes cross. Leaves are where they are first used.
std::vector<int> balanced_stages(const Pcg& pcg, const std::vector<double>& speeds);

// Stage s on the `width` devices from (s mod groups) * width on, the last grid dimension innermost. Error when a node
// has more tasks.
Result<std::vector<MachineMapping>> map_stages(const Pcg& pcg, const std::vector<int>& stages, int groups, int width);

}  // namespace unity
