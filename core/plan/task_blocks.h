// What the tasks of a block (core/machine/mapping.h) do as one: neighbouring shards on one device are one shard.
#pragma once

#include "core/graph/pcg.h"
#include "core/machine/mapping.h"

namespace unity {

// The ranges of the axes that the block computes of micro-batch `micro`.
std::vector<Range> block_ranges(const AxisTable& table, const Sharding& sharding, const TaskGrid& grid,
                                const TaskBlock& block, int micro);

// The part of a stored tensor that the block holds.
Box block_box(const ParallelShape& storage, const TaskGrid& grid, const TaskBlock& block);

// Summands of one block are one summand, so whoever reads them has to add up all there are. Error where a block has
// several of an output that is used otherwise.
Result<void> check_summands(const Pcg& pcg, NodeId id, const MachineMapping& mapping);

}  // namespace unity
