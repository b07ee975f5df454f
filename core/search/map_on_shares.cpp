#include "core/search/map_on_shares.h"

#include <algorithm>
#include <optional>

#include "core/base/parallel.h"
#include "core/graph/pcg.h"
#include "core/search/mapping_shares.h"
#include "core/search/pipeline_stages.h"

namespace unity {
namespace {

constexpr std::size_t kMostPlans = 8;

bool is_faster(const Outcome& a, const Outcome& b) { return a.candidate.score.iteration < b.candidate.score.iteration; }

}  // namespace

void FastestPlans::keep(const Outcome& plan) {
  if (kept_.size() == kMostPlans && !is_faster(plan, kept_.back().plan)) return;
  if (runs_in_stages(plan.candidate.pcg, plan.candidate.mappings)) return;
  const Hash graph = canonical_hash(plan.candidate.pcg);
  auto same = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.graph == graph; });
  if (same != kept_.end()) {
    if (!is_faster(plan, same->plan)) return;
    kept_.erase(same);
  }
  auto behind = std::upper_bound(kept_.begin(), kept_.end(), plan,
                                 [](const Outcome& a, const Kept& b) { return is_faster(a, b.plan); });
  Kept kept{plan, graph};
  kept.plan.front.clear(), kept.plan.rivals.clear();
  kept_.insert(behind, std::move(kept));
  if (kept_.size() > kMostPlans) kept_.pop_back();
}

std::vector<Outcome> FastestPlans::on_shares(const StrategyInput& input) const {
  if (input.devices > kMostShared) return {};
  std::vector<std::optional<Outcome>> mapped(kept_.size());
  parallel_for(kept_.size(), input.evaluator.threads(), [&](std::size_t i) {
    const Candidate& was = kept_[i].plan.candidate;
    auto mapping = input.evaluator.map(was.pcg, Shares::all);
    if (!mapping.ok() || !mapping->in_shares || mapping->mappings == was.mappings) return;
    auto candidate = input.evaluator.evaluate(was.pcg, std::move(mapping->mappings), was.schedule);
    if (!candidate.ok()) return;
    mapped[i] = Outcome{std::move(*candidate), kept_[i].plan.derivation, kept_[i].plan.stopped_because, {}};
  });
  std::vector<Outcome> found;
  for (std::optional<Outcome>& plan : mapped)
    if (plan) found.push_back(std::move(*plan));
  return found;
}

}  // namespace unity
