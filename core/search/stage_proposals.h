// Pipelines that the stage DP (stage_dp.h) proposes from estimates.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/search/stage_estimate.h"
#include "core/search/stage_moves.h"
#include "core/search/staged_plan.h"
#include "core/search/submesh.h"

namespace unity {

// How a pipeline may save memory.
struct Saving {
  bool fits = true;  // the estimates of memory say so; else weights are stored in parts
  bool one_f_one_b = false;
  bool remat = false;
  auto operator<=>(const Saving&) const = default;
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
  auto operator<=>(const ProposalRequest&) const = default;
};

// Of one model, whose gradients are joined in one way: what searches for its pipelines share. Thread-safe, but for
// plans that are added (IntraPlans::add), effects and what was taken.
class StageProposals {
 public:
  // Both have to live as long. Gradients are joined as the options' schedule says, or in such buckets.
  StageProposals(const StrategyInput& input, IntraPlans& plans)
      : StageProposals(input, plans, input.options.schedule.bucket) {}
  StageProposals(const StrategyInput& input, IntraPlans& plans, Bytes bucket)
      : in_(input), bucket_(bucket), plans_(plans), meshes_(stage_submeshes(input)), estimates_(input, plans, bucket) {}

  IntraPlans& plans() { return plans_; }
  const std::vector<Submesh>& meshes() const { return meshes_; }
  const StageEstimates& estimates() const { return estimates_; }
  StepEffects& effects() { return effects_; }             // of steps that were simulated
  std::map<std::size_t, int>& taken() { return taken_; }  // by number of stages: plans from which steps were looked at

  // For each number of stages one. `layer_ends`: one past the last operator of each layer. Answers are kept, but for
  // plans of a chosen kind.
  std::vector<Proposal> propose(const std::vector<std::size_t>& layer_ends, const ProposalRequest& request);

 private:
  std::vector<Proposal> find(const std::vector<std::size_t>& layer_ends, const ProposalRequest& request);

  const StrategyInput& in_;
  const Bytes bucket_;
  IntraPlans& plans_;
  const std::vector<Submesh> meshes_;
  StageEstimates estimates_;
  StepEffects effects_;
  std::map<std::size_t, int> taken_;
  std::mutex mutex_;  // of what follows
  std::map<std::pair<std::vector<std::size_t>, ProposalRequest>, std::vector<Proposal>> found_;
};

// So many plans in all, the fastest of the proposals, which are sorted then; of each number of stages two, and two with
// one plan in each stage.
void add_fastest(std::vector<StagedPlan>& plans, std::vector<Proposal>& proposals, std::size_t most);

// Those that are estimated to be faster by 1% than the others with as many stages.
void keep_faster(std::vector<Proposal>& proposals, const std::vector<Proposal>& others);

}  // namespace unity
