// The search for pipelines whose stages have widths and plans of their own (staged_plan.h): the stage DP (stage_dp.h)
// proposes them from estimates (stage_estimate.h), simulation ranks them, and the best one is improved step by step: a
// cut elsewhere, another plan inside a stage, two stages for one or one for two, other micro-batches. On many devices,
// where a simulation takes long, fewer are simulated.
#pragma once

#include <vector>

#include "core/search/stage_proposals.h"
#include "core/search/strategy.h"

namespace unity {

struct StageSearchOptions {
  std::vector<int> layers = {8};  // that operators are clustered into: for each number, a run of the DP
  int plans = 16;                 // of each, how many are simulated
  bool several = false;           // at least two stages
  bool buckets = false;           // gradients are joined, or each is on its own, as is faster
  bool overlap = false;           // what stages communicate may be hidden (core/plan/overlap.h)
  bool even = false;              // also stages of as many devices and about as many FLOPs each, with data parallelism
  bool by_layers = true;          // stages whose layers follow shardings of the whole model (intra_stage.h)
  bool each_operator = false;     // also as an exact choice for each operator has them (exact_sharding.h)
  bool mixed = false;             // also with operators that take the batch at once (mixed_pipelines.h)
  int improvements = 0;           // plans simulated to improve the best one
  int budget = 0;                 // candidates of the whole search after which nothing is simulated; 0: no end
  Picoseconds incumbent{};        // a plan that is known: what is far slower is not improved. 0: none
  double share = 1;               // of the tasks that may be simulated on many devices
  bool selective = false;         // there, fewer plans are simulated, as estimates and earlier searches say
};

// The fastest that fits. Numbers of micro-batches are those of the options, else all that may be useful. Where
// parallelism of kind `pipeline` is not allowed, plans have one stage. Error: nothing could be run.
Result<Outcome> search_stages(const StrategyInput& input, const StageSearchOptions& options);

// The same with proposals of the input's model, whose gradients are joined as the options say.
Result<Outcome> search_stages(const StrategyInput& input, const StageSearchOptions& options, StageProposals& proposals);

}  // namespace unity
