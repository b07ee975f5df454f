#include "core/search/map_on_shares.h"

#include <algorithm>
#include <optional>

#include "core/base/parallel.h"
#include "core/graph/pcg.h"
#include "core/search/mapping_shares.h"
#include "core/search/memory_tradeoffs.h"
#include "core/search/pipeline_stages.h"

namespace unity {
namespace {

constexpr std::ptrdiff_t kMostPlans = 8;  // of each kind
constexpr double kNearly = 1.05;          // what is so much slower than the fastest gains too little by storing parts

bool is_faster(const Outcome& a, const Outcome& b) { return a.candidate.score.iteration < b.candidate.score.iteration; }

// Picoseconds of the fastest among them all.
std::int64_t fastest(const Outcome& one, const std::vector<Outcome>& others) {
  std::int64_t least = one.candidate.score.iteration.count;
  for (const Outcome& o : others) least = std::min(least, o.candidate.score.iteration.count);
  return least;
}

// Adds to `found` those that are mapped on other shares than halves.
void map_all(const std::vector<Outcome>& plans, const StrategyInput& input, std::vector<Outcome>& found) {
  std::vector<std::optional<Outcome>> mapped(plans.size());
  parallel_for(plans.size(), input.evaluator.threads(), [&](std::size_t i) {
    const Candidate& was = plans[i].candidate;
    auto mapping = input.evaluator.map(was.pcg, Shares::all);
    if (!mapping.ok() || !mapping->in_shares || mapping->mappings == was.mappings) return;
    auto candidate = input.evaluator.evaluate(was.pcg, std::move(mapping->mappings), was.schedule);
    if (!candidate.ok()) return;
    mapped[i] = Outcome{std::move(*candidate), plans[i].derivation, plans[i].stopped_because, {}};
  });
  for (std::optional<Outcome>& plan : mapped)
    if (plan) found.push_back(std::move(*plan));
}

}  // namespace

std::vector<Outcome> FastestPlans::plans() const {
  std::vector<Outcome> plans;
  for (const Kept& kept : kept_) plans.push_back(kept.plan);
  return plans;
}

bool FastestPlans::is_rewritten(const Outcome& plan) const {
  return std::any_of(plan.derivation.begin(), plan.derivation.end(),
                     [&](const DerivationStep& step) { return algebraic_.contains(step.rule); });
}

void FastestPlans::keep(const Outcome& plan) {
  const bool rewritten = is_rewritten(plan);
  auto of_kind = [&](const Kept& k) { return k.rewritten == rewritten; };
  auto full = [&] { return std::count_if(kept_.begin(), kept_.end(), of_kind) >= kMostPlans; };
  auto last = [&] { return std::find_if(kept_.rbegin(), kept_.rend(), of_kind); };
  if (full() && !is_faster(plan, last()->plan)) return;
  if (runs_in_stages(plan.candidate.pcg, plan.candidate.mappings)) return;
  const Hash graph = canonical_hash(plan.candidate.pcg);
  auto same = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.graph == graph; });
  if (same != kept_.end()) {
    if (!is_faster(plan, same->plan)) return;
    kept_.erase(same);
  }
  if (full()) kept_.erase(std::prev(last().base()));
  auto behind = std::upper_bound(kept_.begin(), kept_.end(), plan,
                                 [](const Outcome& a, const Kept& b) { return is_faster(a, b.plan); });
  Kept kept{plan, graph, rewritten};
  kept.plan.front.clear(), kept.plan.rivals.clear();
  kept_.insert(behind, std::move(kept));
}

std::vector<Outcome> FastestPlans::on_shares(const StrategyInput& input) const {
  if (input.devices > kMostShared || kept_.empty()) return {};
  std::vector<Outcome> plans, found;
  for (const Kept& k : kept_) plans.push_back(k.plan);
  map_all(plans, input, found);
  if (!input.options.stored_parts) return found;
  const auto nearly = static_cast<std::int64_t>(kNearly * static_cast<double>(fastest(kept_[0].plan, found)));
  plans.clear();
  for (const Outcome& plan : found) {
    if (plan.candidate.score.iteration.count > nearly) continue;
    auto stored = with_stored_parts(plan.candidate.pcg);
    if (!stored.ok()) continue;
    plans.push_back(plan);
    plans.back().candidate.pcg = std::move(*stored), plans.back().candidate.mappings.clear();
    plans.back().derivation.push_back({"gather_stored_parts", "all replicated weights", 0, 0});
  }
  map_all(plans, input, found);
  return found;
}

}  // namespace unity
