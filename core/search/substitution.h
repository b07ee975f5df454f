// Level 2 of the search: which substitutions to apply, by best-first backtracking (paper, section 5.1, Algorithm 1).
//
// A state is a graph; a move applies one rule of the library at a match, or one sharding rule along a whole axis class
// (all operators whose axes are linked through the tensors between them), or moves replication up. The cheapest open
// state is expanded; states worse than alpha times the best are dropped; equal states (canonical hash) are scored once.
// Rounds have a fixed width and are merged by (cost, hash), so the result does not depend on timing.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/plan/plan.h"
#include "core/rewrite/axis_classes.h"
#include "core/rewrite/incremental_match.h"
#include "core/rewrite/library.h"
#include "core/search/evaluator.h"

namespace unity {

// A move by position, so that it can be repeated on an isomorphic graph.
struct Move {
  // fill_class: shard_class on those members only whose operator does not use all devices yet
  // shard_unevenly: shard_class in parts that may differ by an element
  // shard_one, spread_one: one operator along one axis (derive.h)
  enum class Kind : std::uint8_t {
    shard_class,
    fill_class,
    shard_unevenly,
    shard_one,
    spread_one,
    replicate_all,
    rule
  };
  Kind kind = Kind::shard_class;
  int index = 0;  // axis class, rule, or node
  int match = 0;  // rule: which match; fill_class: how many devices there are; shard_one, spread_one: the axis
  int degree = 0;
  bool operator==(const Move&) const = default;
};

// A graph and where rules match in it; empty until they are looked for.
struct MatchedGraph {
  Pcg pcg;
  GraphMatches matches;
};

struct State {
  Pcg pcg;
  std::vector<Move> moves;
  std::vector<DerivationStep> steps;
  std::shared_ptr<const MatchedGraph> from = nullptr;  // in which the last move was made, as long as that is of use
};

// Whether a rule of the library is among the moves, not sharding and replication alone.
bool is_rewritten(const std::vector<Move>& moves);

struct Found {
  State state;
  Candidate candidate;
};

using RewritingGains = std::unordered_map<Hash, std::optional<std::int64_t>>;  // rewritings.h

struct SubstitutionOptions {
  double alpha = 1.05;
  int budget = 100;                          // candidates scored by this call
  int patience = 0;                          // scored without a gain (kGain), after which it ends; 0: the budget
  Picoseconds limit{};                       // what is not faster is of no use; 0: none
  int few = 8;                               // candidates that show whether anything is
  int devices = 1;                           // degrees are divisors of this
  std::vector<std::string> parallelism;      // allowed kinds (parallelism.h); empty: all
  const std::vector<Rule>* rules = nullptr;  // beside sharding; null: the library, empty: none
  const PreparedRules* prepared = nullptr;   // the algebraic ones of these; null: they are prepared for each state
  bool incremental_matching = true;          // matches are carried over from the state before (incremental_match.h)
  RewritingGains* gains = nullptr;  // that other searches with these rules have found, and that this one adds to
  int rewriting_share = 4;  // of the budget, one in so many may go to rewritings; when thorough, as many may come on
                            // top of it, of more operators than the start, which have no end
  bool growth = true;       // of such graphs there may be any
  bool one_device = false;  // every operator on device 0, whatever the others could do
  bool part = false;        // candidates are those of a part (Evaluator::evaluate_part),
  Bytes bucket{};           // whose gradients are joined so;
  double far_above = 0;     // what is estimated so many times the best one's estimate is not scored; 0: all are
  bool whole = false;       // candidates are complete plans, for the log's best so far
  std::size_t keep = 4;     // results
  // For small graphs: operators are sharded one by one, too, and when no state within alpha is left, alpha grows until
  // none is left at all or the budget is spent; the results are the fastest of each degree of parallelism (`keep` of
  // them), and then the Pareto front.
  bool thorough = false;
  bool uneven = true;  // then axis classes that can not be divided are split in unequal parts
};

struct SubstitutionResult {
  std::vector<Found> found;    // the Pareto front of time and memory, fastest first; at most `keep`
  std::optional<Found> plain;  // the fastest without rewritings, where there is one
  std::string stopped_because;
  bool out_of_budget = false;
};

SubstitutionResult substitute(const std::vector<State>& start, Evaluator& evaluator,
                              const SubstitutionOptions& options);

// Divisors of n above 1, ascending.
std::vector<int> degrees_of_devices(int n);

// Every axis class (of the allowed kinds), and copies, by each of these degrees; `one_by_one`: also every axis of every
// operator.
std::vector<Move> layout_moves(const Pcg& pcg, const std::vector<int>& degrees,
                               const std::vector<std::string>& parallelism, bool one_by_one);
std::vector<Move> layout_moves(const Pcg& pcg, const std::vector<AxisClass>& classes, const std::vector<int>& degrees,
                               const std::vector<std::string>& parallelism, bool one_by_one);

// Operators that compute: all but leaves and those of parallelization.
std::ptrdiff_t compute_operators(const Pcg& pcg);

// The largest number of tasks of an operator: how many devices the graph needs.
int most_tasks(const Pcg& pcg);

// Whether sharding a class, or one operator, has to give an operator more tasks than there are devices.
bool has_no_room(const Pcg& pcg, const std::vector<AxisClass>& classes, const Move& move, int devices);

// With `uneven`, an axis class that can not be split in equal parts is in unequal ones; else as apply_move().
Result<State> apply_evenly_or_not(const State& state, Move move, const std::vector<AxisClass>& classes,
                                  const std::vector<Rule>& rules, bool uneven);

// Applies a move, whose rule is one of `rules`; error when it does not apply.
Result<State> apply_move(const State& state, const Move& move, const std::vector<Rule>& rules = rule_library());
// The same, with the graph's axis classes at hand.
Result<State> apply_move(const State& state, const Move& move, const std::vector<AxisClass>& classes,
                         const std::vector<Rule>& rules);

}  // namespace unity
