// What a search for pipelines knows of plans (stage_search.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "core/search/staged_plan.h"

namespace unity {

class KnownPlans {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  static constexpr double kAsLong = 0.005;  // of a plan's time: one that takes so much more or less takes as long

  void begin(const StagedPlan& plan) { times_.emplace(plan, kNever); }  // to simulate it
  void leave_out(const StagedPlan& plan) { left_out_.insert(plan); }    // it is not to be simulated
  void set(const StagedPlan& plan, std::int64_t time, bool fits);       // simulated; picoseconds

  // Whether its simulation was begun, or is not to be.
  bool contains(const StagedPlan& plan) const { return times_.contains(plan) || left_out_.contains(plan); }
  // Simulated, picoseconds; kNever: it was not, or could not be run.
  std::int64_t time(const StagedPlan& plan) const;
  const std::map<StagedPlan, std::int64_t>& times() const { return times_; }  // of all that were begun
  bool fits(const StagedPlan& plan) const { return !unfit_.contains(plan); }  // of one that was simulated

  // Whether one was simulated that has its gradients joined otherwise (in buckets of `own`, or the usual ones, or not
  // at all), and takes as long: the steps from there are known.
  bool has_twin(const StagedPlan& plan, Bytes own) const;
  // Of those that were simulated and take no longer, so many, the fastest first.
  void keep_fastest(std::vector<StagedPlan>& plans, double longest, std::size_t most) const;
  // Whether each takes longer, or was not simulated.
  bool all_slower(const std::vector<StagedPlan>& plans, double longest) const;

 private:
  std::map<StagedPlan, std::int64_t> times_;
  std::set<StagedPlan> left_out_, unfit_;
};

}  // namespace unity
