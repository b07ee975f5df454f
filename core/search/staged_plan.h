// Pipelines whose stages have different widths and plans of their own.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/search/intra_stage.h"

namespace unity {

// Operators in order, cut into stages on ranges of devices. One stage of all operators is a plan without pipeline.
// Where there are more stages than groups of devices, they go around: each group has several parts of the model, stage
// s is on that of stage s - groups, and the order is interleaved (Narayanan et al. 2021, Megatron-LM, section 2.2).
struct StagedPlan {
  int micro_batches = 1;
  std::vector<std::size_t> ends = {};       // by stage: one past its last operator
  std::vector<Resources> devices = {};      // by stage
  std::vector<IntraPlan> plans = {};        // by operator, of as many devices as its stage
  bool stored_parts = false;                // replicas of weights store a part each (ZeRO)
  std::optional<PipelineOrder> order = {};  // else that of the search's options
  bool remat = false;                       // repeated blocks are computed again in the backward pass
  Bytes bucket{};                           // of gradients, as of a schedule
  int overlap = 0;                          // micro-batches at once, as of a schedule
  std::vector<bool> whole = {};             // by operator: takes the batch at once; empty: none does
  auto operator<=>(const StagedPlan&) const = default;
};
// How many groups of devices the stages go around; whether each has more than one of them.
std::size_t groups_of(const StagedPlan& plan);
inline bool is_interleaved(const StagedPlan& plan) { return groups_of(plan) < plan.ends.size(); }
// Whether its micro-batches can go around, as many of them in a row through each part as there are groups.
bool goes_around(const StagedPlan& plan);
// The same groups of devices with so many stages each, of about the share of the FLOPs that each had; its operators
// follow what most of its FLOPs did. None for one group, or where operators are too few.
std::optional<StagedPlan> in_parts(const IntraPlans& plans, const StagedPlan& plan, int parts);
// Whether all operators of a stage follow one plan.
bool is_plain(const StagedPlan& plan);
// Whether some are split in ways of their own (exact_sharding.h).
bool splits_each_operator(const StagedPlan& plan);
// With a schedule like that of all others: what is left is where operators are, and how they are split.
StagedPlan without_schedule(StagedPlan plan);
// "2 stages (data 2; tensor 4), 8 micro-batches", "2 stages with 2 parts each (data 2; data 2; ..), .."
std::string to_string(const StagedPlan& plan);

// The plan in full: laid out, in micro-batches, mapped, scored. Its shardings have been asked for before. Error when it
// can not be laid out or run, or that takes more than some `most_tasks`. Thread-safe.
Result<Outcome> build_staged(const IntraPlans& plans, const StagedPlan& plan, const StrategyInput& input,
                             double most_tasks = std::numeric_limits<double>::infinity());

}  // namespace unity
