// Lowering: Plan -> Program. The only one.
#pragma once

#include "core/graph/pcg.h"
#include "core/machine/mapping.h"
#include "core/plan/device_blocks.h"
#include "core/plan/program.h"
#include "core/plan/schedule.h"

namespace unity {

struct LowerOptions {
  bool training = true;  // false: forward only
  OptimizerSpec optimizer;
  Schedule schedule;  // of training
  // Only what these devices do, which stand for all, and what communications join them with; participants elsewhere
  // have no buffers. For scores, not to be run. Error when what they do cannot be told from them alone.
  LoweredBlocks blocks;
  // Only the first so many micro-batches, where none of their results are put together to a batch (`batch`); 0: all.
  // For scores, not to be run.
  int micro_batches = 0;
  bool scheduled = true;  // false: of training, schedule_tasks() is still to be called (schedule.h)
};

// Whether the graph is a piece of a model, as the search cuts it: values come from others (`boundary`), or go to them
// (`deliver`).
bool is_piece(const Pcg& pcg);

// Error when a mapping does not fit, or an operator on the gradient's way is not differentiable, or
// the schedule does not apply.
Result<Program> lower(const Pcg& pcg, const std::vector<MachineMapping>& mappings, const Topology& topology,
                      const LowerOptions& options = {});

}  // namespace unity
