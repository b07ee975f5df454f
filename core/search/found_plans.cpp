#include "core/search/found_plans.h"

#include <algorithm>
#include <utility>

#include "core/base/parallel.h"
#include "core/search/gradient_buckets.h"
#include "core/search/hidden_communications.h"
#include "core/search/memory_tradeoffs.h"
#include "core/search/pipeline_stages.h"
#include "core/search/submesh.h"

namespace unity {
namespace {

constexpr double kStoredMayGain = 1.5;  // than the best: with weights in parts, data parallelism may be faster
constexpr double kPlainMayGain = 1.02;  // than the best: mapped plainly
constexpr double kSharesMayGain = 1.1;  // than the best: on other shares than halves

// The same for plans of one graph under one schedule.
Hash plan_hash(const Outcome& plan) {
  return combine(canonical_hash(plan.candidate.pcg), schedule_hash(plan.candidate.schedule));
}

std::set<std::string> algebraic(const std::vector<Rule>& rules) {
  std::set<std::string> names;
  for (const Rule& rule : rules)
    if (rule.algebraic()) names.insert(rule.name);
  return names;
}

}  // namespace

FoundPlans::FoundPlans(const StrategyInput& input, const SearchPurpose& purpose, const std::vector<Rule>& rules)
    : in_(input),
      purpose_(purpose),
      best_(fail("strategy {}: no plan was found", input.options.strategy)),
      fastest_(algebraic(rules)) {}

Result<Outcome> FoundPlans::release(const std::string& stopped_because) {
  for (Outcome& plan : hidden_) keep(std::move(plan));
  if (best_.ok() && !stopped_because.empty()) best_->stopped_because = stopped_because;
  if (in_.options.pareto && best_.ok()) {
    keep(*best_);
    best_->front = front_;
    for (Outcome& plan : best_->front) plan.stopped_because = best_->stopped_because;
  }
  if (best_.ok() && purpose_.rewritten)
    for (Outcome& plan : fastest_.plans())
      if (nearly_as_fast(plan, kSharesMayGain) && plan.candidate.score.iteration > best_time())
        best_->rivals.push_back(std::move(plan));
  return std::move(best_);
}

void FoundPlans::add_rival(Outcome plan) {
  if (!purpose_.serial && fits(plan.candidate.score)) fastest_.keep(plan);
  rivals_.push_back(std::move(plan));
}

void FoundPlans::take(Result<Outcome> other) {
  const std::optional<Score>& smallest = in_.evaluator.smallest();
  if (!other.ok()) {
    if (!best_.ok() && !smallest) best_ = other.error();
    return;
  }
  if (!fits(other->candidate.score)) {
    if (!best_.ok())
      best_ = does_not_fit(in_.options.strategy, smallest ? *smallest : other->candidate.score, in_.evaluator);
    return;
  }
  if (!purpose_.serial) fastest_.keep(*other);
  if (!best_.ok() || other->candidate.score.iteration < best_->candidate.score.iteration) best_ = std::move(other);
}

void FoundPlans::keep(Outcome plan) {
  if (purpose_.serial) return;
  front_.push_back(std::move(plan));
  keep_front(front_, in_.evaluator);
}

std::optional<Outcome> FoundPlans::mapped_plainly(const Outcome& plan) {
  const Candidate& c = plan.candidate;
  std::vector<MachineMapping> plain = natural_mappings(c.pcg);
  if (plain == c.mappings || runs_in_stages(c.pcg, c.mappings)) return std::nullopt;
  auto candidate = in_.evaluator.evaluate(c.pcg, std::move(plain), c.schedule);
  if (!candidate.ok()) return std::nullopt;
  return Outcome{std::move(*candidate), plan.derivation, plan.stopped_because, {}};
}

void FoundPlans::map_rivals_plainly() {
  if (!best_.ok() || !in_.options.mapping_dp) return;
  std::vector<Outcome> plans = {*best_};
  std::set<Hash> graphs = {canonical_hash(best_->candidate.pcg)};
  for (const Outcome& rival : rivals_)
    if (fits(rival.candidate.score) && nearly_as_fast(rival, kPlainMayGain) &&
        graphs.insert(canonical_hash(rival.candidate.pcg)).second)
      plans.push_back(rival);
  std::int64_t number = in_.evaluator.scored();
  const std::int64_t left = std::max<std::int64_t>(0, in_.options.budget - number);
  std::vector<std::optional<Outcome>> plain(std::min(plans.size(), static_cast<std::size_t>(left)));
  parallel_for(plain.size(), in_.evaluator.threads(), [&](std::size_t i) { plain[i] = mapped_plainly(plans[i]); });
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (!plain[i]) continue;
    in_.evaluator.found(plain[i]->candidate.score, ++number);
    if (i > 0) add_rival(*plain[i]);
    take(std::move(*plain[i]));
  }
}

bool FoundPlans::nearly_as_fast(const Outcome& plan, double slower) const {
  return static_cast<double>(plan.candidate.score.iteration.count) <=
         slower * static_cast<double>(best_->candidate.score.iteration.count);
}

std::vector<Outcome> FoundPlans::fastest_mapped_plainly() {
  std::vector<Outcome> found;
  if (in_.devices > kManyDevices) return found;
  for (const Outcome& plan : fastest_.plans()) {
    if (!nearly_as_fast(plan, kPlainMayGain)) break;
    in_.evaluator.score_after_stop(1);  // a few, whatever is left
    std::optional<Outcome> plain = mapped_plainly(plan);
    in_.evaluator.score_after_stop(0);
    if (plain) found.push_back(std::move(*plain));
  }
  return found;
}

void FoundPlans::map_on_shares() {
  if (!best_.ok() || !in_.options.mapping_dp) return;
  fastest_.keep(*best_);
  std::vector<Outcome> mapped;
  if (purpose_.known.count == 0) mapped = fastest_.on_shares(in_);
  for (Outcome& plan : fastest_mapped_plainly()) mapped.push_back(std::move(plan));
  for (Outcome& plan : mapped) {
    if (plan.stopped_because.empty()) plan.stopped_because = best_->stopped_because;
    in_.evaluator.found(plan.candidate.score);
    keep(plan);
    take(std::move(plan));
  }
}

void FoundPlans::store_parts(const std::optional<Outcome>& data) {
  if (front_.empty() || !in_.options.stored_parts) return;
  Outcome fastest = front_.front();
  if (best_.ok() && best_->candidate.score.iteration <= fastest.candidate.score.iteration) fastest = *best_;
  if (best_.ok()) fastest.stopped_because = best_->stopped_because;
  auto time = [](const Outcome& plan) { return static_cast<double>(plan.candidate.score.iteration.count); };
  stored_of_ = canonical_hash(fastest.candidate.pcg);
  std::vector<Outcome> plans = {std::move(fastest)};
  if (data && time(*data) <= kStoredMayGain * time(plans[0]) && canonical_hash(data->candidate.pcg) != stored_of_)
    plans.push_back(*data);
  std::vector<std::vector<Outcome>> tried(plans.size());
  parallel_for(plans.size(), in_.evaluator.threads(),
               [&](std::size_t i) { tried[i] = memory_tradeoffs(plans[i], in_, Tradeoffs::stored_parts); });
  for (std::vector<Outcome>& variants : tried)
    for (Outcome& variant : variants) {
      in_.evaluator.found(variant.candidate.score);
      keep(variant), rivals_.push_back(variant);
      take(std::move(variant));
    }
}

void FoundPlans::hide() {
  std::vector<Outcome> plans = rivals_;
  plans.insert(plans.end(), front_.begin(), front_.end());
  for (Outcome& plan : hide_communications(plans, in_, hidden_of_)) {
    if (best_.ok() && plan.stopped_because.empty()) plan.stopped_because = best_->stopped_because;
    hidden_.push_back(plan);
    rivals_.push_back(plan);
    take(std::move(plan));
  }
}

void FoundPlans::join_gradients(Picoseconds of_no_use) {
  std::vector<Outcome> scored;
  if (best_.ok()) {
    // What is so much slower gains too little; of the best graph it is known.
    std::erase_if(rivals_, [&](const Outcome& o) { return o.candidate.score.iteration > of_no_use; });
    Hash best = canonical_hash(best_->candidate.pcg);
    if (best == joined_of_)
      std::erase_if(rivals_, [&](const Outcome& o) { return canonical_hash(o.candidate.pcg) == best; });
  }
  std::optional<Outcome> joined = choose_buckets(rivals_, in_, scored);
  for (Outcome& plan : scored) {
    if (fits(plan.candidate.score)) fastest_.keep(plan);
    keep(std::move(plan));
  }
  // It may be as fast with each gradient on its own.
  if (joined && (!best_.ok() || joined->candidate.score.iteration <= best_->candidate.score.iteration))
    best_ = std::move(*joined);
  if (best_.ok()) joined_of_ = canonical_hash(best_->candidate.pcg);
  rivals_.clear();
}

void FoundPlans::finish_stopped(const std::optional<Outcome>& data, bool joins) {
  if (!best_.ok() || purpose_.serial || purpose_.rewritten || purpose_.known.count > 0 || !in_.evaluator.stopping())
    return;
  const bool hides = in_.options.overlap && in_.options.schedule.overlap == 0 && in_.devices <= kVeryManyDevices;
  std::vector<Outcome> plans = {*best_};
  if (data && canonical_hash(data->candidate.pcg) != canonical_hash(best_->candidate.pcg)) plans.push_back(*data);
  for (const Outcome& plan : plans) {
    if (runs_in_stages(plan.candidate.pcg, plan.candidate.mappings)) continue;
    for (bool hidden : {false, true})
      for (bool joined : {false, true}) {
        Schedule schedule = plan.candidate.schedule;
        if (hidden && hides && schedule.overlap == 0) schedule.overlap = 1;
        if (joined && joins && schedule.bucket.count == 0) schedule.bucket = kUsualBucket;
        if (schedule == plan.candidate.schedule) continue;
        in_.evaluator.score_after_stop(1);
        auto candidate = in_.evaluator.evaluate(plan.candidate.pcg, plan.candidate.mappings, schedule);
        in_.evaluator.score_after_stop(0);
        if (!candidate.ok()) continue;
        in_.evaluator.found(candidate->score);
        take(Outcome{std::move(*candidate), plan.derivation, plan.stopped_because, {}});
      }
  }
}

void FoundPlans::trade_memory() {
  bool pareto = in_.options.pareto;
  std::vector<Outcome> plans = front_;
  for (std::size_t i = 0; i < plans.size() && !in_.evaluator.stopping(); ++i) {
    Outcome& plan = plans[i];
    bool slower = best_.ok() && !may_gain(plan, *best_);
    if ((slower && !pareto && i > 0) || !traded_.insert(plan_hash(plan)).second) continue;
    bool enough = fits(plan.candidate.score) && !pareto;
    if (enough && !in_.options.stored_parts) continue;
    // A pipeline's parts were stored so by the search for its stages; here its operators would be mapped anew.
    if (enough && (runs_in_stages(plan.candidate.pcg, plan.candidate.mappings) ||
                   canonical_hash(plan.candidate.pcg) == stored_of_))
      continue;
    trade_memory_of(plan, enough ? Tradeoffs::stored_parts : Tradeoffs::all);
  }
  for (std::size_t i = 0; i < aside_.size() && !best_.ok() && !in_.evaluator.stopping(); ++i)
    if (traded_.insert(plan_hash(aside_[i])).second) trade_memory_of(aside_[i], Tradeoffs::all);
}

void FoundPlans::trade_memory_of(Outcome& plan, Tradeoffs which) {
  if (plan.stopped_because.empty() && best_.ok()) plan.stopped_because = best_->stopped_because;
  for (Outcome& variant : memory_tradeoffs(plan, in_, which)) {
    in_.evaluator.found(variant.candidate.score);
    traded_.insert(plan_hash(variant));
    keep(variant);
    take(std::move(variant));
  }
}

}  // namespace unity
