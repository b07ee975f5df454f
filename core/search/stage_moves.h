// Steps between pipelines: a cut elsewhere, another plan inside a stage, two stages for one or one for two, more or
// fewer parts of the model on each group of devices, other micro-batches, another schedule.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/search/staged_plan.h"

namespace unity {

// What all of a tensor-parallel group compute goes only to groups as large: values keep their copies. So either no
// operator has a plan of that kind, or all have, with one size of groups: 0 says none.
int copies_of(const IntraPlan& plan);

// Where cuts may lie (one past the last operator of each layer), which numbers of micro-batches there are, in order,
// and what of the schedule the options leave open: `parts`: whether stages may have several each; `stored`: whether
// weights may be stored in parts; `remat`: whether blocks may be computed again.
struct StageMoves {
  const std::vector<std::size_t>& layer_ends;
  const std::vector<int>& micro_batches;
  bool order = false, overlap = false, parts = false, stored = false, remat = false;
};

// What is one step from a plan.
std::vector<StagedPlan> neighbours(IntraPlans& plans, const StagedPlan& plan, const StageMoves& free);

// The plan with its weights stored in parts or not, in the other orders, and with two micro-batches at once; of one
// stage, the first of these only, and with weights' gradients behind what is communicated or as they come. `buckets`:
// also with its gradients joined or not.
std::vector<StagedPlan> other_schedules(const StagedPlan& plan, const StageMoves& free, bool buckets);

// Whether stages communicate inside their passes.
bool communicates_inside(const StagedPlan& plan);

// Of pipelines that were simulated, by their times, the fastest that communicate inside their passes and take at most
// some 15% longer than `best` (picoseconds): with two micro-batches at once, which may hide that, in every order that
// may then be faster. Of as many stages, the fastest alone.
std::vector<StagedPlan> two_at_once(const std::map<StagedPlan, std::int64_t>& simulated, std::int64_t best,
                                    const StageMoves& free);

// The plan of one stage in two and in four micro-batches that run at once, where it communicates inside and has them.
std::vector<StagedPlan> micro_batches_at_once(IntraPlans& plans, const StagedPlan& plan);

// How much slower steps made plans that change nothing but the schedule, and that one stage that is data-parallel
// inside becomes tensor-parallel.
class StepEffects {
 public:
  void learn(const StagedPlan& from, const StagedPlan& to, double slower);  // `slower` times
  // The least of all steps of this kind; 0: none is known, or it changes more than that.
  double least(const StagedPlan& from, const StagedPlan& to) const;

 private:
  using Order = std::optional<PipelineOrder>;
  enum class Place : std::uint8_t { first, between, last };
  // What `to` has that `from` has not: an order; with its order, on which it depends what they are worth, an overlap,
  // and a degree of tensor parallelism in a stage; recomputation; stored parts.
  using Step = std::tuple<std::optional<Order>, std::optional<std::pair<int, Order>>,
                          std::optional<std::tuple<int, Place, Order>>, std::optional<bool>, std::optional<bool>>;
  static std::optional<Step> step(const StagedPlan& from, const StagedPlan& to);
  std::map<Step, double> least_;
};

// All stages data-parallel inside; none where that can not be run.
std::optional<StagedPlan> data_parallel_inside(IntraPlans& plans, StagedPlan plan);
// Of those that are pipelines, what that makes of each. Sums of gradients hide behind micro-batches better than
// the estimates know.
std::vector<StagedPlan> data_parallel_inside(IntraPlans& plans, const std::vector<StagedPlan>& pipelines);

// Of those that have several stages: with two parts on each group of devices, a shorter way to the last stage for more
// that is sent and held; in as many micro-batches, or the next number of them that goes around.
std::vector<StagedPlan> in_two_parts(const IntraPlans& plans, const std::vector<StagedPlan>& pipelines,
                                     const std::vector<int>& micro_batches);

}  // namespace unity
