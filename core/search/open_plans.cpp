#include "core/search/open_plans.h"

#include <cmath>
#include <limits>
#include <utility>

namespace unity {
namespace {

constexpr double kLessPromising = 1.01;  // is a plan of which so many moves are known

}  // namespace

bool OpenPlans::is_new(const StagedPlan& plan, std::int64_t time) {
  return seen_[without_schedule(plan)].insert(time).second;
}

OpenPlans::Plan OpenPlans::take() {
  auto best = open_.begin();
  double least = std::numeric_limits<double>::infinity();
  std::set<std::size_t> seen;  // numbers of stages
  for (auto at = open_.begin(); at != open_.end() && at->time < least; ++at) {
    const std::size_t stages = at->plan.ends.size();
    if (!seen.insert(stages).second) continue;
    const double key = at->time * std::pow(kLessPromising, taken_[stages]);
    if (key < least && at->unfit == open_.begin()->unfit) least = key, best = at;
  }
  Plan plan = std::move(open_.extract(best).value());
  ++taken_[plan.plan.ends.size()];
  return plan;
}

void OpenPlans::put_back(Plan plan) {
  plan.time *= kLessPromising;
  open_.insert(std::move(plan));
}

}  // namespace unity
