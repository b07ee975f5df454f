#include "core/search/stage_moves.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "core/search/gradient_buckets.h"

namespace unity {
namespace {

constexpr std::array<std::optional<PipelineOrder>, 3> kOrders = {std::nullopt, PipelineOrder::one_f_one_b,
                                                                 PipelineOrder::zero_bubble};
constexpr int kMostParts = 4;
constexpr double kMayHide =
    1.15;  // times what the best plan takes, when others may be faster with what is sent hidden:
constexpr std::size_t kMostHidden = 6;  // so many of them

}  // namespace

int copies_of(const IntraPlan& plan) { return plan.rest == IntraPlan::Rest::copies ? plan.tensor : 0; }

std::vector<StagedPlan> neighbours(IntraPlans& intra, const StagedPlan& plan, const StageMoves& free) {
  std::vector<StagedPlan> all;
  const std::size_t groups = groups_of(plan);
  const bool interleaved = is_interleaved(plan);
  auto add = [&](StagedPlan next) {
    if (!goes_around(next)) return;
    for (const IntraPlan& p : next.plans)
      if (!intra.has_micro_batches(p, next.micro_batches) || copies_of(p) != copies_of(next.plans[0])) return;
    all.push_back(std::move(next));
  };
  auto set = [](StagedPlan& p, std::size_t begin, std::size_t end, const IntraPlan& inside) {
    std::fill(p.plans.begin() + static_cast<std::ptrdiff_t>(begin), p.plans.begin() + static_cast<std::ptrdiff_t>(end),
              inside);
  };
  // Other micro-batches.
  auto m = std::find(free.micro_batches.begin(), free.micro_batches.end(), plan.micro_batches);
  for (std::ptrdiff_t step : {-2, -1, 1, 2})
    if (m != free.micro_batches.end() && m - free.micro_batches.begin() + step >= 0 &&
        free.micro_batches.end() - m > step) {
      StagedPlan next = plan;
      next.micro_batches = *(m + step);
      add(std::move(next));
    }
  StagedPlan stored = plan;
  stored.stored_parts = !plan.stored_parts;
  if (free.stored || plan.stored_parts) add(std::move(stored));
  if (free.overlap)
    for (int overlap : {0, 1, 2}) {
      StagedPlan other = plan;
      other.overlap = overlap;
      if (other != plan && overlap <= plan.micro_batches) add(std::move(other));
    }
  if (free.order) {
    for (std::optional<PipelineOrder> order : kOrders) {
      if (interleaved) break;
      StagedPlan other = plan;
      other.order = order;
      if (other != plan) add(std::move(other));
    }
    StagedPlan again = plan;
    again.remat = !plan.remat;
    if (free.remat && intra.has_blocks()) add(std::move(again));
  }
  if (free.parts) {
    const int parts = static_cast<int>(plan.ends.size() / groups);
    for (int other : {parts - 1, parts + 1}) {
      if (other < 2 || other > kMostParts) continue;
      if (auto next = in_parts(intra, plan, other)) add(std::move(*next));
    }
  }
  for (std::size_t s = 0; s < plan.ends.size(); ++s) {
    std::size_t begin = s == 0 ? 0 : plan.ends[s - 1], end = plan.ends[s];
    // Another plan inside: of all that the devices have.
    if (s < groups)
      for (const IntraPlan& inside : intra.of_width(plan.devices[s].count)) {
        StagedPlan next = plan;
        for (std::size_t part = s; part < plan.ends.size(); part += groups)
          set(next, part == 0 ? 0 : plan.ends[part - 1], plan.ends[part], inside);
        if (next != plan) add(std::move(next));
      }
    // Two halves of it.
    if (int half = plan.devices[s].count / 2; !interleaved && 2 * half == plan.devices[s].count) {
      for (std::size_t cut : free.layer_ends) {
        if (cut <= begin || cut >= end || 2 * (cut - begin) < end - begin) continue;
        for (const IntraPlan& inside : intra.of_width(half)) {
          StagedPlan next = plan;
          next.ends.insert(next.ends.begin() + static_cast<std::ptrdiff_t>(s), cut);
          next.devices[s].count = half;
          next.devices.insert(next.devices.begin() + static_cast<std::ptrdiff_t>(s) + 1,
                              {plan.devices[s].first + half, half});
          set(next, begin, end, inside);
          add(std::move(next));
        }
        break;
      }
    }
    if (s + 1 == plan.ends.size()) continue;
    // A cut between other layers.
    for (int direction : {-1, 1})
      for (int step : {1, 2}) {
        std::size_t cut = end;
        for (int i = 0; i < step; ++i) {
          auto at = direction > 0 ? std::upper_bound(free.layer_ends.begin(), free.layer_ends.end(), cut)
                                  : std::lower_bound(free.layer_ends.begin(), free.layer_ends.end(), cut);
          if (direction < 0 && at != free.layer_ends.begin()) --at;
          if (at != free.layer_ends.end()) cut = *at;
        }
        if (cut <= begin || cut >= plan.ends[s + 1] || cut == end) continue;
        StagedPlan next = plan;
        next.ends[s] = cut;
        if (direction > 0) set(next, end, cut, plan.plans[end - 1]);
        if (direction < 0) set(next, cut, end, plan.plans[end]);
        add(std::move(next));
      }
    if (interleaved) continue;
    // One stage of two.
    int width = plan.devices[s].count + plan.devices[s + 1].count;
    for (const IntraPlan& inside : intra.of_width(width)) {
      StagedPlan next = plan;
      next.ends.erase(next.ends.begin() + static_cast<std::ptrdiff_t>(s));
      next.devices[s].count = width;
      next.devices.erase(next.devices.begin() + static_cast<std::ptrdiff_t>(s) + 1);
      set(next, begin, plan.ends[s + 1], inside);
      add(std::move(next));
    }
  }
  return all;
}

std::vector<StagedPlan> other_schedules(const StagedPlan& plan, const StageMoves& free, bool buckets) {
  std::vector<StagedPlan> all;
  auto add = [&](auto change) {
    StagedPlan other = plan;
    change(other);
    if (other != plan) all.push_back(std::move(other));
  };
  if (free.stored) add([](StagedPlan& p) { p.stored_parts = true; });
  if (plan.ends.size() > 1) {
    for (PipelineOrder order : {PipelineOrder::one_f_one_b, PipelineOrder::zero_bubble})
      if (free.order && !is_interleaved(plan)) add([&](StagedPlan& p) { p.order = order; });
    if (free.overlap && plan.micro_batches > 1) add([](StagedPlan& p) { p.overlap = 2; });
  } else if (free.overlap && plan.overlap <= 1) {
    add([](StagedPlan& p) { p.overlap = 1 - p.overlap; });
  }
  if (buckets) add([](StagedPlan& p) { p.bucket = p.bucket.count > 0 ? Bytes{} : kUsualBucket; });
  return all;
}

bool communicates_inside(const StagedPlan& plan) {
  return std::any_of(plan.plans.begin(), plan.plans.end(),
                     [](const IntraPlan& p) { return p.tensor > 1 || p.chosen > 0; });
}

std::vector<StagedPlan> two_at_once(const std::map<StagedPlan, std::int64_t>& simulated, std::int64_t best,
                                    const StageMoves& free) {
  std::map<std::int64_t, const StagedPlan*> by_time;  // of those that take as long, which differ little, one
  for (const auto& [plan, time] : simulated)
    if (plan.ends.size() > 1 && plan.micro_batches > 1 && plan.whole.empty() && communicates_inside(plan) &&
        static_cast<double>(time) <= kMayHide * static_cast<double>(best))
      by_time.emplace(time, &plan);
  std::vector<StagedPlan> found;
  std::set<std::size_t> seen;  // numbers of stages
  for (const auto& [time, plan] : by_time) {
    if (seen.size() == kMostHidden) break;
    if (!seen.insert(plan->ends.size()).second) continue;
    found.push_back(*plan);
    found.back().overlap = 2;
    for (PipelineOrder order : {PipelineOrder::one_f_one_b, PipelineOrder::zero_bubble})
      if (free.order && !is_interleaved(*plan)) {
        found.push_back(found.back());
        found.back().order = order;
      }
  }
  return found;
}

std::vector<StagedPlan> micro_batches_at_once(IntraPlans& plans, const StagedPlan& plan) {
  std::vector<StagedPlan> found;
  for (int m : {2, 4}) {
    StagedPlan hidden = plan;
    hidden.micro_batches = hidden.overlap = m;
    if (plan.plans[0].tensor > 1 && plans.has_micro_batches(plan.plans[0], m)) found.push_back(std::move(hidden));
  }
  return found;
}

std::optional<StepEffects::Step> StepEffects::step(const StagedPlan& from, const StagedPlan& to) {
  if (from.ends != to.ends || from.devices != to.devices) return std::nullopt;
  StagedPlan rest = to;
  std::optional<std::tuple<int, Place, Order>> inside;
  const std::size_t groups = groups_of(to);
  std::set<std::size_t> changed;  // groups of devices
  for (std::size_t s = 0, k = 0; s < to.ends.size(); ++s)
    for (; k < to.ends[s]; ++k) {
      const IntraPlan &was = from.plans[k], &is = to.plans[k];
      if (was == is || was.tensor > 1 || was.chosen > 0 || is.chosen > 0) continue;
      rest.plans[k] = was;
      changed.insert(s % groups);
      const Place place = s % groups == 0 ? Place::first : s % groups + 1 == groups ? Place::last : Place::between;
      inside.emplace(is.tensor, place, to.order);
    }
  if (changed.size() > 1 || without_schedule(from) != without_schedule(std::move(rest))) return std::nullopt;
  auto new_one = []<class T>(const T& a, const T& b) {
    return a == b ? std::optional<T>() : std::optional<T>(std::in_place, b);
  };
  std::optional<std::pair<int, Order>> overlap;
  if (from.overlap != to.overlap) overlap.emplace(to.overlap, to.order);
  return Step{new_one(from.order, to.order), overlap, inside, new_one(from.remat, to.remat),
              new_one(from.stored_parts, to.stored_parts)};
}

void StepEffects::learn(const StagedPlan& from, const StagedPlan& to, double slower) {
  std::optional<Step> made = step(from, to);
  if (!made) return;
  auto [known, fresh] = least_.try_emplace(*made, slower);
  if (!fresh) known->second = std::min(known->second, slower);
}

double StepEffects::least(const StagedPlan& from, const StagedPlan& to) const {
  std::optional<Step> made = step(from, to);
  auto known = made ? least_.find(*made) : least_.end();
  return known == least_.end() ? 0 : known->second;
}

std::optional<StagedPlan> data_parallel_inside(IntraPlans& plans, StagedPlan plan) {
  for (std::size_t s = 0, k = 0; s < plan.ends.size(); ++s)
    for (; k < plan.ends[s]; ++k) plan.plans[k] = {plan.devices[s].count, 1, {}};
  if (std::any_of(plan.plans.begin(), plan.plans.end(), [&](const IntraPlan& inside) {
        return !plans.sharded(inside) || !plans.has_micro_batches(inside, plan.micro_batches);
      }))
    return std::nullopt;
  return plan;
}

std::vector<StagedPlan> data_parallel_inside(IntraPlans& plans, const std::vector<StagedPlan>& pipelines) {
  std::vector<StagedPlan> found;
  for (const StagedPlan& plan : pipelines)
    if (plan.ends.size() > 1)
      if (auto data = data_parallel_inside(plans, plan)) found.push_back(std::move(*data));
  return found;
}

std::vector<StagedPlan> in_two_parts(const IntraPlans& plans, const std::vector<StagedPlan>& pipelines,
                                     const std::vector<int>& micro_batches) {
  std::vector<StagedPlan> found;
  for (const StagedPlan& p : pipelines) {
    std::optional<StagedPlan> parts = in_parts(plans, p, 2);
    if (!parts) continue;
    auto can_be = [&](int m) {
      parts->micro_batches = m;
      return m >= p.micro_batches && goes_around(*parts) &&
             std::all_of(parts->plans.begin(), parts->plans.end(),
                         [&](const IntraPlan& inside) { return plans.has_micro_batches(inside, m); });
    };
    if (std::any_of(micro_batches.begin(), micro_batches.end(), can_be)) found.push_back(std::move(*parts));
  }
  return found;
}

}  // namespace unity
