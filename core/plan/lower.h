// Lowering: Plan -> Program. The only one.
#pragma once

#include "core/graph/pcg.h"
#include "core/machine/mapping.h"
#include "core/plan/program.h"
#include "core/plan/schedule.h"

namespace unity {

struct LowerOptions {
  bool training = true;  // false: forward only
  OptimizerSpec optimizer;
  Schedule schedule;  // of training
};

// Error when a mapping does not fit, or an operator on the gradient's way is not differentiable, or
// the schedule does not apply.
Result<Program> lower(const Pcg& pcg, const std::vector<MachineMapping>& mappings, const Topology& topology,
                      const LowerOptions& options = {});

}  // namespace unity
