// What an edit changes in the time of an iteration, told from its surroundings alone: the operators that it changes
// and their neighbours are lowered and simulated by themselves, before and after, as the search does with parts of a
// graph. It takes milliseconds where lowering all devices takes seconds, and is near, not exact: what the rest of the
// iteration hides counts in full.
//
// Of pipelines with m micro-batches and stages that take t_s for each, an iteration takes sum_s t_s + (m - 1) max_s t_s
// (GPipe, and 1F1B with flush): one micro-batch of the surroundings is simulated, and one more, whose time counts where
// its stage is the slowest one. Shares of stages are told by their multiply-adds.
#pragma once

#include <optional>

#include "core/plan/device_blocks.h"
#include "core/plan/plan.h"
#include "core/search/cost_model.h"

namespace unity::gui {

// Time after minus time before, which is `iteration`. None where the surroundings are most of the graph, do not stand
// by themselves (sums that reach far, interleaved stages, what leaves its stage), or cannot be lowered.
std::optional<Picoseconds> estimate_change(const Plan& before, Picoseconds iteration, const Plan& after,
                                           const CostModel& cost, const DeviceBlocks& blocks);

}  // namespace unity::gui
