// Search: from a model and a machine to a Plan. One entry point for every strategy.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "core/plan/plan.h"
#include "core/rewrite/rule.h"
#include "core/search/cost_model.h"

namespace unity {

struct SearchProgress {
  std::string stage;            // "encoder.1.attention.. under 2-way data, 6 copies"
  std::int64_t candidates = 0;  // scored so far
  double fraction = 0;          // of the work known so far, 0..1
  Picoseconds best;             // of the whole iteration; 0: none yet
};

// What lies before the level-2 searches (substitution.h) that run.
struct SearchQueue {
  std::int64_t to_score = 0;   // new candidates
  std::int64_t to_expand = 0;  // scored ones within alpha of the best, whose neighbours have not been looked at
};

// What a search has done so far.
struct SearchState {
  SearchLog log;
  std::int64_t candidates = 0;  // scored
  double seconds = 0;
  SearchQueue queue;
};

struct SearchOptions {
  std::string strategy = "unity";
  int budget = 4000;      // candidates that may be scored, by a second search half as many; counted: results repeat
  double alpha = 1.05;    // a candidate worse than alpha times the best is not expanded (paper, section 5.1)
  int jobs = 0;           // threads, 0: one for each core; the plan does not depend on it
  int minimum_part = 10;  // smallest part of a split, in operators (paper: k = 10)
  std::uint64_t seed = 1;
  Bytes memory_limit{0};  // per device; 0: as the device has
  double time_limit = 0;  // seconds, after which the best so far is returned; 0: none. Results do not repeat then
  OptimizerSpec optimizer;
  Schedule schedule;
  int stages = 0, parts = 0, micro_batches = 0;  // strategy pipeline: stages, parts of the graph in each; 0: tried
  std::vector<std::string> parallelism;  // allowed kinds: data, model, reduction, head, spatial, pipeline; empty: all
  std::vector<Rule> rules;               // that rewrite the graph besides the library's: proved ones of the user's
  bool pareto = false;                   // look for plans that need less memory, too, though the fastest one fits
  // What can be left out, to see what it is worth (the paper's Table 2).
  bool splitting = true;   // level 1; without it, the whole graph is one part
  bool algebra = true;     // rewriting by rules, in level 2
  bool mapping_dp = true;  // level 3; without it, every operator starts at device 0, the last grid dimension innermost
  bool blocks = true;      // where a block of devices stands for all, candidates are lowered for that alone
  bool incremental_matching = true;  // of rules, near the last change (incremental_match.h)
  bool cache = true;    // parts that are solved once, costs of edges and mappings that are kept from graph to graph
  bool buckets = true;  // strategy unity: which gradients are joined, where the schedule does not say
  bool overlap = true;  // strategies unity, pipeline: what communications hide, where the schedule does not say
  bool offload = true;  // what waits on the host where nothing else fits (memory_tradeoffs.h), where it does not say
  bool remat = true;    // what is computed again (memory_tradeoffs.h, stage_moves.h), where it does not say
  bool stored_parts = true;  // strategies unity, pipeline, alpa-like: weights in parts, where that is faster
  bool seeds = true;         // strategy unity: a look at data parallelism, the expert, even pipelines
  bool templates = true;     // strategy unity: parts and stages begin with columns, then rows, too (column_then_row.h)
  bool growth = true;        // strategy unity: rules may lead to graphs of more operators than the model (or part) has
  bool uneven = true;        // strategies unity, exhaustive: small graphs are split in unequal parts, too
  std::function<void(const SearchProgress&)> progress;
  // Called twice: when the search begins, with a function that any thread may call to see how far it is, and before it
  // ends, with an empty one, after which that function must not be called any more.
  std::function<void(std::function<SearchState()>)> watch;
  const std::atomic<bool>* stop = nullptr;  // once set, by another thread or a signal's handler: as at the time limit
};

// The plan that the strategy finds. Error: the strategy does not apply to this model or machine, or no plan fits in
// memory (says how much it would need), or the search was stopped before it had any. InputError: unknown strategy,
// options out of range, or that the strategy does not take.
Result<Plan> find_plan(const ModelSpec& model_spec, const Pcg& model, const CostModel& cost,
                       const SearchOptions& options);

// With SearchOptions::pareto, the plans among which time and memory are a choice: each fits, and no other is both as
// fast and as small; the fastest first, which is what find_plan gives. Without, that one alone. Errors as there.
Result<std::vector<Plan>> find_plans(const ModelSpec& model_spec, const Pcg& model, const CostModel& cost,
                                     const SearchOptions& options);

// Of their errors: whether the search was stopped before it had a plan, rather than that there is none.
bool was_stopped(const Error& error);

struct StrategyInfo {
  std::string name;
  std::string description;
  std::vector<std::string> takes;  // of the options that say what is sought, by their names on the command line
};
std::vector<StrategyInfo> strategies();
std::vector<std::string> strategy_names();

// Options that say what is sought and that the strategy has no use for, by name: find_plan refuses them. For strategies
// side by side, they can be left out.
std::vector<std::string> not_taken(const SearchOptions& options);
void leave_out(SearchOptions& options, const std::vector<std::string>& names);

}  // namespace unity
