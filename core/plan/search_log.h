// What a search did: written to the plan by core/search, drawn by `unity report`. All but `seconds` repeats from run to
// run, with any number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/base/units.h"

namespace unity {

// Why a candidate was left out: those before `above_alpha` were never scored, the others were.
enum class LeftOut : std::uint8_t {
  not_allowed,     // a kind of parallelism that the options exclude
  refused,         // the rule or sharding does not apply: a side would be ill-typed
  too_many_tasks,  // an operator would have more tasks than there are devices
  long_path,       // what it computes alone, one task after another, takes longer than (alpha times) the best
  much_work,       // a rewriting with more work than others of the same graph
  duplicate,       // equal to one that was there before
  given_up,        // others of the part made no progress, or were too slow to be of use
  over_budget,     // no candidate was left in the budget
  interrupted,     // an interruption or time limit came first
  not_runnable,    // no machine mapping or no lowering
  not_told,        // of a part on many devices: a few of them do not tell what all do
  slow_estimate,   // of a part: its mapping's estimate is far above that of the best one
  above_alpha,     // slower than alpha times the best: not expanded
  rejected,        // slower than the one that Monte Carlo stood at, and not accepted
  does_not_fit,    // a complete plan that needs more memory than there is
};
constexpr std::size_t kLeftOutReasons = 15;
std::string_view to_string(LeftOut reason);  // "too_many_tasks"
constexpr bool is_scored(LeftOut reason) { return reason >= LeftOut::above_alpha; }

// Where the time of a search goes.
enum class SearchLevel : std::uint8_t { split, substitution, mapping, lowering, simulation };
constexpr std::size_t kSearchLevels = 5;
std::string_view to_string(SearchLevel level);

// A complete plan that fits and is faster than all before it.
struct BestSoFar {
  std::int64_t candidates = 0;  // scored by then, with it
  Picoseconds iteration;
  bool operator==(const BestSoFar&) const = default;
};

struct SearchLog {
  bool interrupted = false;  // by the user or a time limit: what is there is the best until then
  std::array<std::int64_t, kLeftOutReasons> left_out{};
  std::vector<BestSoFar> best_so_far;  // empty: there is no log
  std::int64_t parts_solved = 0, parts_reused = 0;

  // What differs from run to run.
  struct Seconds {
    std::vector<double> best_so_far;            // since the start of the search, for each of the above
    std::array<double, kSearchLevels> level{};  // of processors, over all threads
  } seconds;

  std::int64_t count(LeftOut reason) const { return left_out[static_cast<std::size_t>(reason)]; }
  std::int64_t left_out_unscored() const;
};

// Object with keys interrupted, left_out, best_so_far, parts, seconds. Reading: InputError names file and place.
nlohmann::json search_log_json(const SearchLog& log);
SearchLog search_log_from_json(const nlohmann::json& object, const std::string& file);

}  // namespace unity
