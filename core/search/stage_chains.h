// What is inside a stage (Zheng et al. 2022, "Alpa", section 5): a plan for each of its layers, where results are laid
// out anew between plans that differ.
#pragma once

#include <span>
#include <vector>

#include "core/search/stage_estimate.h"

namespace unity {

struct Chain {
  std::vector<IntraPlan> plans;  // by layer
  StageTotals totals;
};

// Which plans, and how they run.
struct ChainKind {
  int micro_batches = 1;
  bool remat = false;
  int copies = 0;      // those with as many (stage_moves.h)
  bool plain = false;  // one plan throughout
  int chosen = 0;      // also plans that split each operator in a way of its own, of this kind
};

// Stages whose operators begin at `begin`, by the number of their layers, which end at `ends`: for each the fastest of
// the kind, and the plain one that needs the least memory.
std::vector<std::vector<Chain>> chains(IntraPlans& plans, const StageEstimates& estimates, std::size_t begin,
                                       std::span<const std::size_t> ends, const Resources& devices,
                                       const ChainKind& kind);

}  // namespace unity
