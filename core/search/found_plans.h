// The complete plans that a joint search has found, and the variants that it makes of the fastest of them: other
// schedules, mappings, and memory for time. Each is scored as a whole.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/rewrite/rule.h"
#include "core/search/map_on_shares.h"
#include "core/search/memory_tradeoffs.h"
#include "core/search/strategy.h"

namespace unity {

// What a joint search is for, if not to find the fastest plan of all.
struct SearchPurpose {
  bool serial = false;     // the graph that is fastest on one device, whether it fits there or not
  Picoseconds known{};     // the iteration of a plan that is there already; 0: none
  bool rewritten = false;  // the graph is the result of algebra, of which it needs no more; pipelines it does
};

class FoundPlans {
 public:
  // The input has to stay. `rules`: those of the search.
  FoundPlans(const StrategyInput& input, const SearchPurpose& purpose, const std::vector<Rule>& rules);

  // The fastest that fits, where there is one; else the error that says why.
  const Result<Outcome>& best() const { return best_; }
  bool has_best() const { return best_.ok(); }
  Picoseconds best_time() const { return best_->candidate.score.iteration; }
  // It, with all that was found where a front is asked for; of a rewritten graph, whose search is one of several, with
  // others that are nearly as fast for rivals. Ends the use of this object.
  Result<Outcome> release(const std::string& stopped_because);
  bool fits(const Score& score) const { return purpose_.serial || in_.evaluator.fits(score); }

  // The fastest plan that fits; of plans that do not fit, the error of the smallest.
  void take(Result<Outcome> other);
  // For the front of time and memory.
  void keep(Outcome plan);
  // Of its kind the fastest: it may overtake the best one once it is improved.
  void add_rival(Outcome plan);
  // Slower and larger than others as it is, it may be the one that can be made to fit.
  void set_aside(Outcome plan) { aside_.push_back(std::move(plan)); }
  void add_best_as_rival() {
    if (best_.ok()) rivals_.push_back(*best_);
  }

  // The mapping search adds up pieces, and may spread single tasks over devices whose links are busy. Of the best plan,
  // and of rivals that are nearly as fast.
  void map_rivals_plainly();
  // Last, so that no step before goes another way by it: the fastest plans, on other shares of the machine than halves,
  // and plainly.
  void map_on_shares();
  // Of the fastest plan, which pipelines have to be faster than, and of data parallelism, where that may be the fastest
  // then (ZeRO).
  void store_parts(const std::optional<Outcome>& data);
  // What passes wait for, hidden behind other micro-batches and gradients of weights: the fastest plan may be another
  // one then.
  void hide();
  // Joined, many small gradients take less time, where they are many: which plan is the fastest may be another one
  // then. What is slower than `of_no_use` gains too little.
  void join_gradients(Picoseconds of_no_use);
  // A search that was cut short has joined no gradients and hidden nothing: a few candidates are for that. Data
  // parallelism may gain the most. `joins`: gradients may share collectives.
  void finish_stopped(const std::optional<Outcome>& data, bool joins);
  // Weights stored in parts may even be faster. Beyond that, plans that do not fit are made to fit where they are
  // faster than the best one that does; with `pareto`, all plans are varied; where none fits, those set aside, too.
  void trade_memory();

 private:
  void trade_memory_of(Outcome& plan, Tradeoffs which);
  std::vector<Outcome> fastest_mapped_plainly();
  std::optional<Outcome> mapped_plainly(const Outcome& plan);
  bool nearly_as_fast(const Outcome& plan, double slower) const;  // as the best one, or so many times slower

  const StrategyInput& in_;
  SearchPurpose purpose_;
  Result<Outcome> best_;
  std::vector<Outcome> front_;     // by time and memory, whether they fit or not
  std::vector<Outcome> aside_;     // for when nothing fits
  std::vector<Outcome> hidden_;    // variants of some in which communications are hidden
  std::vector<Outcome> rivals_;    // of all kinds, each the fastest of its kind
  FastestPlans fastest_;           // of those that fit, to be mapped on all shares
  std::set<Hash> traded_;          // plans that were made to need less memory, and what they became
  std::optional<Hash> stored_of_;  // the graph that was tried with its weights in parts
  std::set<Hash> hidden_of_;       // graphs whose communications were hidden
  std::optional<Hash> joined_of_;  // the graph whose buckets are chosen
};

}  // namespace unity
