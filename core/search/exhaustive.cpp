// Strategy `exhaustive`: the fastest plan of a space that is scored as a whole, of small graphs. The space:
//
//   graphs    all that lead from the model by any number of moves, breadth-first, once each (canonical hash): every
//             rule of the library and of the user at every match; every axis of every single operator, split by every
//             divisor of the devices, where it is computed once and where it is computed several times (derive.h);
//             every axis class (axis_classes.h), likewise, in unequal parts where it can not be divided; copies of
//             everything. No operator has more tasks than there are devices, and no graph more operators (but for those
//             of parallelization) than the model.
//   orders    of each graph, every order of its operators in which none stands before another that it waits for.
//   mappings  of each of these, every combination of what the mapping search (level 3) chooses from for each operator
//             (mapping_search.h: MappingSearch::all), stored leaves with their users.
//
// The rest is as given: no pipeline, one schedule. The strategy `unity` searches a part of this space, and
// graphs of more operators, too (but for `--no-growth`).
//
// All graphs are made, but not all plans are scored: where the device with the most to compute takes as long for that
// alone as the best plan so far takes (busy_bound.h), a plan can not be faster.

#include "core/search/exhaustive.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <set>

#include "core/base/parallel.h"
#include "core/rewrite/match.h"
#include "core/rewrite/normalize.h"
#include "core/search/busy_bound.h"
#include "core/search/data_parallel.h"
#include "core/search/memory_tradeoffs.h"
#include "core/search/operator_orders.h"
#include "core/search/rewritings.h"

namespace unity {
namespace {

// By how many operators a graph grows at least where the rule is applied: with one result, which is used, all of the
// target is new and alive, and of the source no more than its own operators goes, where the target takes all that the
// source took. Else there is no telling.
std::ptrdiff_t least_growth(const Rule& rule) {
  std::set<int> taken, kept;
  std::ptrdiff_t growth = 0;
  for (std::size_t n = 0; n < rule.nodes.size(); ++n) {
    const bool source = n < rule.source_nodes;
    const OpCategory category = rule.nodes[n].op->category();
    if (category == OpCategory::compute) growth += source ? -1 : 1;
    for (const PatternValue& v : rule.nodes[n].inputs)
      if (v.variable >= 0) (source ? taken : kept).insert(v.variable);
  }
  return rule.source_outputs.size() == 1 && taken == kept ? growth : std::numeric_limits<std::ptrdiff_t>::min();
}

class Exhaustive {
 public:
  Exhaustive(const StrategyInput& input, bool prune)
      : in_(input),
        prune_(prune),
        degrees_(degrees_of_devices(input.devices)),
        bound_(input.evaluator.cost(), input.options.optimizer, input.options.schedule) {
    rules_ = rules_of(input.options);
    std::erase_if(rules_, [](const Rule& rule) { return !rule.algebraic(); });
    for (const Rule& rule : rules_) least_growth_.push_back(least_growth(rule));
  }

  Result<Outcome> run() {
    UNITY_TRY_VOID(reach_all());
    for (std::size_t g = 0; g < graphs_.size() && !in_.evaluator.stopping(); ++g) {
      if (in_.options.progress)
        in_.options.progress({fmt::format("graph {} of {}", g + 1, graphs_.size()), plans_,
                              static_cast<double>(g) / static_cast<double>(graphs_.size()),
                              best_.ok() ? best_->candidate.score.iteration : Picoseconds{}});
      auto most = static_cast<std::size_t>(std::max<std::int64_t>(1, in_.options.budget - plans_ + 1));
      for (Ordered& ordered : operator_orders(graphs_[g].pcg, most))
        UNITY_TRY_VOID(score(ordered.pcg, graphs_[g].steps));
    }
    in_.evaluator.record().left_out(LeftOut::long_path, slower_);
    if (!best_.ok()) return best_;
    best_->stopped_because = fmt::format("all {} plans of {} graphs scored", plans_, graphs_.size());
    if (slower_ > 0) best_->stopped_because += fmt::format(", but for {} with a device that computes longer", slower_);
    for (Outcome& plan : front_) plan.stopped_because = best_->stopped_because;
    best_->front = std::move(front_);
    return best_;
  }

 private:
  Error too_large(const char* what) const {
    return fail(
        "strategy exhaustive: {} operators on {} devices have more than {} {}, expected at most so many "
        "(--budget): it is for small graphs and machines",
        compute_operators(in_.model), in_.devices, in_.options.budget, what);
  }

  Result<void> score(const Pcg& pcg, const std::vector<DerivationStep>& steps) {
    auto mappings = in_.evaluator.mapping_search().all(pcg, in_.options.budget - plans_);
    if (!mappings.ok()) return too_large("plans");
    plans_ += static_cast<std::int64_t>(mappings->size());
    // What does not fit would have to give way to any plan that does.
    if (prune_ && !in_.options.pareto && best_.ok() && in_.evaluator.fits(best_->candidate.score)) {
      const BusyBound::Graph busy = bound_.of(pcg);
      slower_ += static_cast<std::int64_t>(std::erase_if(*mappings, [&](const std::vector<MachineMapping>& m) {
        return bound_.busiest(busy, m) >= best_->candidate.score.iteration;
      }));
    }
    std::vector<std::optional<Candidate>> candidates(mappings->size());
    parallel_for(candidates.size(), in_.evaluator.threads(), [&](std::size_t i) {
      auto candidate = in_.evaluator.evaluate(pcg, (*mappings)[i]);
      if (candidate.ok()) candidates[i] = std::move(*candidate);
    });
    for (std::optional<Candidate>& c : candidates) {
      if (!c) continue;
      Outcome plan{std::move(*c), steps, ""};
      if (in_.options.pareto) front_.push_back(plan);
      take_better(best_, std::move(plan), in_);
    }
    keep_front(front_, in_.evaluator);
    return {};
  }

  Result<void> reach_all() {
    graphs_.push_back({normalize(in_.model), {}, {}});
    seen_.insert(canonical_hash(graphs_[0].pcg));
    for (std::size_t g = 0; g < graphs_.size() && !in_.evaluator.stopping(); ++g) {
      apply_rules(graphs_[g]);
      lay_out(graphs_[g]);
      if (static_cast<std::int64_t>(graphs_.size()) > in_.options.budget) return too_large("graphs");
    }
    return {};
  }

  void add(Result<State> state) {
    if (state.ok() && most_tasks(state->pcg) <= in_.devices &&
        compute_operators(state->pcg) <= compute_operators(in_.model) &&
        seen_.insert(canonical_hash(state->pcg)).second)
      graphs_.push_back(std::move(*state));
  }

  void apply_rules(const State& from) {
    MatchIndex index(from.pcg);
    const std::ptrdiff_t room = compute_operators(in_.model) - compute_operators(from.pcg);
    for (std::size_t r = 0; r < rules_.size(); ++r) {
      if (least_growth_[r] > room) continue;
      std::vector<Match> matches = find_matches(index, rules_[r]);
      for (std::size_t m = 0; m < matches.size(); ++m)
        add(rewrite(from, {Move::Kind::rule, static_cast<int>(r), static_cast<int>(m), 0}, rules_[r], matches[m]));
    }
  }

  void lay_out(const State& from) {
    const std::vector<AxisClass> classes = axis_classes(from.pcg);
    for (const Move& move : layout_moves(from.pcg, classes, degrees_, in_.options.parallelism, true))
      if (!has_no_room(from.pcg, classes, move, in_.devices))
        add(apply_evenly_or_not(from, move, classes, rules_, in_.options.uneven));
  }

  const StrategyInput& in_;
  bool prune_;
  std::vector<int> degrees_;
  std::vector<Rule> rules_;
  std::vector<std::ptrdiff_t> least_growth_;  // by rule
  std::deque<State> graphs_;
  std::set<Hash> seen_;
  BusyBound bound_;
  Result<Outcome> best_ = fail("strategy exhaustive: no candidate could be lowered");
  std::vector<Outcome> front_;  // of all plans, where it is asked for
  std::int64_t plans_ = 0, slower_ = 0;
};

}  // namespace

Result<Outcome> score_all(const StrategyInput& input, bool prune) { return Exhaustive(input, prune).run(); }

Result<Outcome> exhaustive(const StrategyInput& input) { return score_all(input, true); }

}  // namespace unity
