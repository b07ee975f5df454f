// Strategy `exhaustive`: the fastest plan of a space that is scored as a whole, of small graphs. The space:
//
//   graphs    all that lead from the model by any number of moves, breadth-first, once each (canonical hash): every
//             rule of the library and of the user at every match; every axis of every single operator, split by every
//             divisor of the devices, where it is computed once and where it is computed several times (derive.h);
//             every axis class (axis_classes.h), likewise; copies of everything. No operator has more tasks than there
//             are devices, and no graph more operators (but for those of parallelization) than the model.
//   mappings  of each graph, every combination of what the mapping search (level 3) chooses from for each operator
//             (mapping_search.h: MappingSearch::all), stored leaves with their users.
//
// The rest is as given: no pipeline, one schedule. The strategy `unity` searches a part of this space, and
// graphs of more operators, too.

#include <algorithm>
#include <optional>
#include <set>

#include "core/base/parallel.h"
#include "core/rewrite/match.h"
#include "core/rewrite/normalize.h"
#include "core/search/data_parallel.h"

namespace unity {
namespace {

class Exhaustive {
 public:
  explicit Exhaustive(const StrategyInput& input) : in_(input), degrees_(degrees_of_devices(input.devices)) {
    if (!input.options.algebra) return;
    for (const Rule& rule : rule_library()) rules_.push_back(rule);
    for (const Rule& rule : input.options.rules) rules_.push_back(rule);
    std::erase_if(rules_, [](const Rule& rule) { return !rule.algebraic(); });
  }

  Result<Outcome> run() {
    UNITY_TRY_VOID(reach_all());
    Result<Outcome> best = fail("strategy exhaustive: no candidate could be lowered");
    std::int64_t plans = 0;
    for (std::size_t g = 0; g < graphs_.size() && !in_.evaluator.stopping(); ++g) {
      if (in_.options.progress)
        in_.options.progress({fmt::format("graph {} of {}", g + 1, graphs_.size()), plans,
                              static_cast<double>(g) / static_cast<double>(graphs_.size()), best_});
      auto mappings = in_.evaluator.mapping_search().all(graphs_[g].pcg, in_.options.budget - plans);
      if (!mappings.ok()) return too_large("plans");
      plans += static_cast<std::int64_t>(mappings->size());
      std::vector<std::optional<Candidate>> candidates(mappings->size());
      parallel_for(candidates.size(), in_.evaluator.threads(), [&](std::size_t i) {
        auto candidate = in_.evaluator.evaluate(graphs_[g].pcg, (*mappings)[i]);
        if (candidate.ok()) candidates[i] = std::move(*candidate);
      });
      for (std::optional<Candidate>& c : candidates) {
        if (!c) continue;
        take_better(best, Outcome{std::move(*c), graphs_[g].steps, ""}, in_.evaluator);
        best_ = best->candidate.score.iteration;
      }
    }
    if (best.ok()) best->stopped_because = fmt::format("all {} plans of {} graphs scored", plans, graphs_.size());
    return best;
  }

 private:
  Error too_large(const char* what) const {
    return fail(
        "strategy exhaustive: {} operators on {} devices have more than {} {}, expected at most so many "
        "(--budget): it is for small graphs and machines",
        compute_operators(in_.model), in_.devices, in_.options.budget, what);
  }

  Result<void> reach_all() {
    graphs_.push_back({normalize(in_.model), {}, {}});
    seen_.insert(canonical_hash(graphs_[0].pcg));
    for (std::size_t g = 0; g < graphs_.size() && !in_.evaluator.stopping(); ++g) {
      rewrite(g);
      lay_out(g);
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

  void rewrite(std::size_t g) {
    State from = graphs_[g];
    MatchIndex index(from.pcg);
    for (std::size_t r = 0; r < rules_.size(); ++r) {
      auto matches = static_cast<int>(find_matches(index, rules_[r]).size());
      for (int m = 0; m < matches; ++m) add(apply_move(from, {Move::Kind::rule, static_cast<int>(r), m, 0}, rules_));
    }
  }

  void lay_out(std::size_t g) {
    State from = graphs_[g];
    for (const Move& move : layout_moves(from.pcg, degrees_, in_.options.parallelism, true))
      add(apply_move(from, move));
  }

  const StrategyInput& in_;
  std::vector<int> degrees_;
  std::vector<Rule> rules_;
  std::vector<State> graphs_;
  std::set<Hash> seen_;
  Picoseconds best_;
};

}  // namespace

Result<Outcome> exhaustive(const StrategyInput& input) { return Exhaustive(input).run(); }

}  // namespace unity
