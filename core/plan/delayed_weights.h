// Delayed weights, PipeDream-2BW's semantics (Narayanan et al. 2021, "Memory-efficient pipeline-parallel DNN
// training"): a step's passes read the weights of one update before,
//
//   w(t+1) = w(t) - rate grad(w(t-1)),  w(-1) = w(0)
//
// so that in a pipeline a step's first passes need not wait for the update of the step before. Each shard of a weight
// is there in two versions, which start equal: "NAME", which the passes read, and "NAME.next", which the update
// changes. Once a step's passes have read the first, and before the update, it becomes what the second is.
#pragma once

#include <string>

#include "core/plan/program.h"
#include "core/plan/schedule.h"

namespace unity {

// Of the name of a weight.
inline std::string next_version(const std::string& name) { return name + ".next"; }

// Error when the Program has no stages (stages.h): without them there is nothing to gain.
Result<void> delay_weights(Program& program, WeightVersions weights);

}  // namespace unity
