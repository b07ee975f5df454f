// Lowering: Plan -> Program. The only one.
#pragma once

#include "core/graph/pcg.h"
#include "core/machine/mapping.h"
#include "core/plan/program.h"

namespace unity {

struct LowerOptions {
  bool training = true;  // false: forward only
  OptimizerSpec optimizer;
};

// Error when a mapping does not fit, or an operator on the gradient's way is not differentiable.
Result<Program> lower(const Pcg& pcg, const std::vector<MachineMapping>& mappings, const Topology& topology,
                      const LowerOptions& options = {});

}  // namespace unity
