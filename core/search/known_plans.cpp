#include "core/search/known_plans.h"

#include <algorithm>
#include <cmath>

#include "core/search/gradient_buckets.h"

namespace unity {

void KnownPlans::set(const StagedPlan& plan, std::int64_t time, bool fits) {
  times_[plan] = time;
  if (!fits) unfit_.insert(plan);
}

std::int64_t KnownPlans::time(const StagedPlan& plan) const {
  auto known = times_.find(plan);
  return known == times_.end() ? kNever : known->second;
}

bool KnownPlans::has_twin(const StagedPlan& plan, Bytes own) const {
  const auto here = static_cast<double>(time(plan));
  for (Bytes bucket : {Bytes{}, kUsualBucket, own}) {
    StagedPlan twin = plan;
    twin.bucket = bucket;
    if (twin != plan && times_.contains(twin) && fits(twin) == fits(plan) &&
        std::abs(here - static_cast<double>(time(twin))) <= kAsLong * here)
      return true;
  }
  return false;
}

void KnownPlans::keep_fastest(std::vector<StagedPlan>& plans, double longest, std::size_t most) const {
  std::erase_if(plans,
                [&](const StagedPlan& p) { return time(p) == kNever || static_cast<double>(time(p)) > longest; });
  std::stable_sort(plans.begin(), plans.end(),
                   [&](const StagedPlan& a, const StagedPlan& b) { return time(a) < time(b); });
  plans.resize(std::min(plans.size(), most));
}

bool KnownPlans::all_slower(const std::vector<StagedPlan>& plans, double longest) const {
  return std::all_of(plans.begin(), plans.end(),
                     [&](const StagedPlan& p) { return static_cast<double>(time(p)) > longest; });
}

}  // namespace unity
