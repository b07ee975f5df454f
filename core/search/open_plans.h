// Which pipeline a walk goes on from (stage_search.h).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "core/search/staged_plan.h"

namespace unity {

// Pipelines that were simulated and whose neighbours are not all known.
class OpenPlans {
 public:
  struct Plan {
    bool unfit = false;  // it takes more memory than there is
    double time = 0;     // simulated, picoseconds; longer the more of its neighbours are known
    StagedPlan plan;
    auto operator<=>(const Plan&) const = default;
  };

  OpenPlans() = default;
  // Begins with what was taken before: numbers of stages that were looked at are less promising.
  explicit OpenPlans(std::map<std::size_t, int> taken) : taken_(std::move(taken)) {}

  // Whether no pipeline that differs in its schedule only took as long: of such, the neighbours would take as long,
  // too.
  bool is_new(const StagedPlan& plan, std::int64_t time);
  void add(Plan plan) { open_.insert(std::move(plan)); }
  // The first of all, by what fits, then by time; null: there is none.
  const Plan* first() const { return open_.empty() ? nullptr : &*open_.begin(); }
  // The most promising one of at least one: the fastest, but numbers of stages take turns where they are about as fast.
  Plan take();
  // Of one that was taken, some neighbours are left for later.
  void put_back(Plan plan);
  const std::map<std::size_t, int>& taken() const { return taken_; }  // by number of stages, how often

 private:
  std::set<Plan> open_;
  std::map<std::size_t, int> taken_;
  std::map<StagedPlan, std::set<std::int64_t>> seen_;  // times of those that differ in their schedule only
};

}  // namespace unity
