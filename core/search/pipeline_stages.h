// Pipelines: a model's operators in order, cut into stages, with its batch in micro-batches.
#pragma once

#include <map>
#include <vector>

#include "core/graph/pcg.h"
#include "core/machine/mapping.h"

namespace unity {

// `pipeline(dim, micro_batches)` after every leaf that walks the batch (dimension 0 of the first input). Error when the
// batch does not divide, or an operator needs the whole of it. Operators of `whole`, by node, take the batch at once:
// `pipeline` comes after what they make, `batch` before what they read. Compute nodes keep their order.
Result<Pcg> with_micro_batches(const Pcg& pcg, int micro_batches, const std::vector<bool>& whole = {});

// By node: operators that look up rows of trainable tables. As the tables' gradients, of all rows, are added up over
// micro-batches, but of a whole batch need not exist (row_updates.h), these may be faster whole.
std::vector<bool> lookups(const Pcg& pcg);

// For every node, which of as many consecutive stages as there are speeds it belongs to (parallelization operators:
// -1). Stages have FLOPs about in proportion to their speeds: each cut lies within a tenth of a stage of its place by
// FLOPs, where the fewest bytes cross. Leaves are where they are first used.
std::vector<int> balanced_stages(const Pcg& pcg, const std::vector<double>& speeds);

// By compute node of a graph without parallelism or micro-batches: the axis that walks the batch, where it can be cut.
std::map<NodeId, int> batch_axes(const Pcg& pcg);

// The devices of `stages` stages, each on the next `width` ones, of which there are `groups` times as many: stages
// beyond that begin again with the first group.
std::vector<Resources> even_devices(int stages, int groups, int width);

// Every node of a stage (stages[node]) on the stage's devices, the last grid dimension innermost, spread over them
// where it is cut as all others are, but less; a weight or table so that most of what the operators of its stage read
// of it is where they are. Error when a node has more tasks than its stage devices.
Result<std::vector<MachineMapping>> map_stages(const Pcg& pcg, const std::vector<int>& stages,
                                               const std::vector<Resources>& devices);

// Whether micro-batches go through operators of which some are on devices that all come after those of another.
bool runs_in_stages(const Pcg& pcg, const std::vector<MachineMapping>& mappings);

}  // namespace unity
