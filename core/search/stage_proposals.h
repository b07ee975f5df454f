// Pipelines that the stage DP (stage_dp.h) proposes from estimates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/search/stage_estimate.h"
#include "core/search/staged_plan.h"
#include "core/search/submesh.h"

namespace unity {

// How a pipeline may save memory.
struct Saving {
  bool fits = true;  // the estimates of memory say so; else weights are stored in parts
  bool one_f_one_b = false;
  bool remat = false;
};

struct Proposal {
  std::int64_t time = 0;  // estimated, picoseconds
  StagedPlan plan;
};

struct ProposalRequest {
  int micro_batches = 1;
  Saving saving = {};
  int copies = 0;      // of the plans inside stages (copies_of()); 0: any without
  bool plain = false;  // one plan in a stage
  double margin = 1;   // what is estimated may be so many times the memory that there is
  int overlap = 0;     // as of a schedule
  int chosen = 0;      // as of ChainKind
};

// For each number of stages one. `layer_ends`: one past the last operator of each layer.
std::vector<Proposal> propose(const StrategyInput& input, IntraPlans& plans, const StageEstimates& estimates,
                              const std::vector<Submesh>& meshes, const std::vector<std::size_t>& layer_ends,
                              const ProposalRequest& request);

// So many plans in all, the fastest of the proposals, which are sorted then; of each number of stages two, and two with
// one plan in each stage.
void add_fastest(std::vector<StagedPlan>& plans, std::vector<Proposal>& proposals, std::size_t most);

// Those that are estimated to be faster by 1% than the others with as many stages.
void keep_faster(std::vector<Proposal>& proposals, const std::vector<Proposal>& others);

}  // namespace unity
