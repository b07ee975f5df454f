// What an edit changes in the time of an iteration, told from its surroundings alone: the operators that it changes
// and their neighbours are lowered and simulated by themselves, before and after, as the search does with parts of a
// graph. It takes milliseconds where lowering all devices takes seconds, and is near, not exact: what the rest of the
// iteration hides counts in full.
#pragma once

#include <optional>

#include "core/plan/device_blocks.h"
#include "core/plan/plan.h"
#include "core/search/cost_model.h"

namespace unity::gui {

// Time after minus time before. None where the surroundings are most of the graph, do not stand by themselves
// (pipelines, sums that reach far), or cannot be lowered.
std::optional<Picoseconds> estimate_change(const Plan& before, const Plan& after, const CostModel& cost,
                                           const DeviceBlocks& blocks);

}  // namespace unity::gui
