#include "core/search/gradient_buckets.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "core/base/parallel.h"
#include "core/search/pareto.h"

namespace unity {
namespace {

constexpr Bytes kSmaller{5'000'000}, kSmallest{1'000'000}, kLarger{100'000'000}, kLargest{400'000'000};
constexpr double kMayGain = 2;  // a plan this much slower than the fastest may be faster once gradients are joined
constexpr std::size_t kMostPlans = 4;
constexpr double kNearly = 1.03;  // as slow as the fastest of those that are joined: other sizes may make it faster
constexpr std::size_t kMostJoined = 3;

}  // namespace

std::optional<Outcome> choose_buckets(const std::vector<Outcome>& plans, const StrategyInput& input,
                                      std::vector<Outcome>& scored) {
  if (!input.options.buckets || input.options.schedule.bucket.count > 0) return std::nullopt;
  auto time = [](const Outcome& o) { return static_cast<double>(o.candidate.score.iteration.count); };
  auto fits = [&](const Outcome& o) { return input.evaluator.fits(o.candidate.score); };
  auto faster = [&](const Outcome& a, const Outcome& b) { return time(a) < time(b); };
  std::vector<Outcome> from;
  for (const Outcome& o : plans)
    if (fits(o)) from.push_back(o);
  if (from.empty()) return std::nullopt;
  std::stable_sort(from.begin(), from.end(), faster);
  const double fastest = time(from[0]);
  std::erase_if(from, [&](const Outcome& o) { return time(o) > kMayGain * fastest; });
  if (from.size() > kMostPlans) from.resize(kMostPlans);

  std::optional<Outcome> best;  // faster than the fastest, or as fast with each gradient on its own
  using Choices = std::vector<std::pair<const Outcome*, Bytes>>;
  // The times, infinite where there is none.
  auto try_all = [&](Choices choices) {
    std::vector<double> times(choices.size(), std::numeric_limits<double>::infinity());
    auto left = std::max<std::int64_t>(0, input.options.budget - input.evaluator.scored());
    if (std::cmp_greater(choices.size(), left)) choices.resize(static_cast<std::size_t>(left));
    std::vector<std::optional<Outcome>> found(choices.size());
    // First one of each plan: another one of it waits for the same lowering.
    std::vector<int> ranks;
    std::map<const Outcome*, int> before;
    for (const auto& choice : choices) ranks.push_back(before[choice.first]++);
    parallel_by_rank(ranks, input.evaluator.threads(), [&](std::size_t i) {
      const Outcome& plan = *choices[i].first;
      auto candidate = input.evaluator.evaluate_bucket(plan.candidate, choices[i].second);
      if (candidate.ok()) found[i] = Outcome{std::move(*candidate), plan.derivation, plan.stopped_because, {}};
    });
    for (std::size_t i = 0; i < choices.size(); ++i) {
      std::optional<Outcome>& f = found[i];
      if (!f) continue;
      times[i] = time(*f);
      input.evaluator.found(f->candidate.score);
      scored.push_back(*f);
      const Outcome& than = best ? *best : from[0];
      bool simpler = f->candidate.schedule.bucket.count == 0 && than.candidate.schedule.bucket.count > 0;
      if (fits(*f) && (time(*f) < time(than) || (simpler && time(*f) == time(than)))) best = std::move(*f);
    }
    return times;
  };
  Choices usual;
  for (const Outcome& o : from)
    if (o.candidate.schedule.bucket.count == 0) usual.emplace_back(&o, kUsualBucket);
  try_all(usual);
  // A step to either side, and the next ones where that is no loss: of the fastest, and of others nearly as fast. What
  // waits behind communications, or for gathers of weights, may wait less for small buckets.
  std::vector<Outcome> joined = from;
  if (best) joined.insert(joined.begin(), *best);
  std::stable_sort(joined.begin(), joined.end(), faster);
  if (joined.size() > kMostJoined) joined.erase(joined.begin() + kMostJoined, joined.end());
  std::erase_if(joined, [&, least = time(joined[0])](const Outcome& o) { return time(o) > kNearly * least; });
  Choices steps, further;
  for (const Outcome& start : joined) {
    steps.emplace_back(&start, kSmaller);
    steps.emplace_back(&start, start.candidate.schedule.bucket.count == 0 ? kSmallest : kLarger);
  }
  const std::vector<double> times = try_all(steps);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& [start, bucket] = steps[i];
    if (start->candidate.schedule.bucket.count == 0 || times[i] > time(*start)) continue;
    if (bucket == kSmaller)
      further.insert(further.end(), {{start, kSmallest}, {start, Bytes{}}});
    else
      further.emplace_back(start, kLargest);
  }
  try_all(further);
  return best;
}

}  // namespace unity
