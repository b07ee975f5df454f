// The parts of a split (split.h), put together. Each part, under each pair of layouts at its two ends, is a problem of
// its own, whose Pareto front of (time, memory) level 2 finds (substitution.h); dynamic programming over the cuts picks
// layouts and solutions: times add; persistent bytes add; of transient bytes the largest counts. Parts that are alike
// share their solutions, and those that do not need one another are solved at the same time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/search/split.h"
#include "core/search/strategy.h"
#include "core/search/substitution.h"

namespace unity {

// What one part costs under one pair of layouts; as moves, so that an isomorphic part can repeat them.
struct PartSolution {
  std::int64_t time = 0, persistent = 0, transient = 0;  // picoseconds, bytes
  std::vector<Move> moves;
  Hash hash = 0;                                        // of the optimised graph
  std::shared_ptr<const PartSolution> plain = nullptr;  // the fastest without rewritings, where this one has some
};

struct ChainPlan {
  std::int64_t time = 0, persistent = 0, transient = 0;
  std::vector<std::pair<Layout, const PartSolution*>> chosen;  // per part: layout at its end, solution
};

void keep_front(std::vector<ChainPlan>& plans);

// With no part rewritten, under the same layouts; none where no part is, or one has no such solution. The plan has to
// stay.
std::optional<ChainPlan> without_rewritings(const ChainPlan& plan);

class PartChain {
 public:
  // `of_parts`: what level 2 does with each part. `budget`: candidates that the search may have scored by the end.
  PartChain(const StrategyInput& input, std::vector<Part> parts, const SubstitutionOptions& of_parts, int budget);

  const std::vector<Part>& parts() const { return parts_; }
  int budget() const { return budget_; }
  // Of the parts under two layouts that were searched, how many were not to the end: their budgets were spent.
  std::int64_t searched() const { return std::ssize(memo_); }
  std::int64_t cut_short() const { return cut_short_; }
  // Those that the options allow, cut by cut.
  std::vector<std::vector<Layout>> layouts_at_cuts() const;

  // With these layouts at each cut. `limit`: of the time of all parts, picoseconds; 0: none.
  std::vector<ChainPlan> run(const std::vector<std::vector<Layout>>& layouts, std::int64_t limit,
                             const std::function<void(const std::string&)>& progress);

  // The whole graph. Error: a solution does not fit a part that its key says is alike.
  Result<State> assemble(const ChainPlan& plan) const;

 private:
  struct Problem {
    std::size_t part = 0;
    Layout in, out;
    Picoseconds limit{};
    Pcg graph;
    Hash key = 0;
  };
  struct Solved {
    std::vector<PartSolution> front;
    bool used = false;
  };

  Result<Problem> problem(std::size_t part, const Layout& in, const Layout& out, Picoseconds limit) const;
  const std::vector<PartSolution>& solve(std::size_t part, const Layout& in, const Layout& out, Picoseconds limit);
  void solve_all(std::vector<Problem> problems);
  void solve_ahead(std::size_t part, const std::vector<Layout>& ends, const std::vector<std::vector<Layout>>& layouts,
                   std::int64_t before, std::int64_t limit);
  Picoseconds limit_of(std::size_t part, std::int64_t before, std::int64_t limit) const;
  std::vector<State> seeds(const Problem& problem) const;

  const StrategyInput& in_;
  std::vector<Part> parts_;
  SubstitutionOptions of_parts_;
  int budget_;  // candidates of the search, with those of before
  std::map<Hash, Solved> memo_;
  std::int64_t cut_short_ = 0;
  RewritingGains gains_;
  std::vector<std::size_t> kind_;    // by part: the first one that is alike
  std::vector<std::int64_t> least_;  // by kind: the least time under any layouts so far
};

}  // namespace unity
