// Complete plans whose branches run at the same time on other shares of the machine than its halves. Candidates of the
// search are mapped on halves, which takes a fraction of the time, and where the best mapping of each is found, the
// order in which they are tried is another one, not a better one. So the fastest complete plans are kept, and mapped
// again on all shares at the end, where that can only be a gain.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/base/hash.h"
#include "core/search/strategy.h"

namespace unity {

class FastestPlans {
 public:
  // `algebraic`: the rules that rewrite what is computed.
  explicit FastestPlans(std::set<std::string> algebraic = {}) : algebraic_(std::move(algebraic)) {}

  // Of one stage, the fastest few graphs, each with the fastest of its schedules: of the model as it is, and of what it
  // was rewritten to, whose many variants, all as fast, would crowd out the others.
  void keep(const Outcome& plan);
  std::vector<Outcome> plans() const;  // the fastest first

  // Those that the mapping search estimates to be faster on other shares than halves, so mapped, as simulated; the
  // fastest of them with weights stored in parts, too. None on many devices, which have halves only. The same plans
  // with any number of threads.
  std::vector<Outcome> on_shares(const StrategyInput& input) const;

 private:
  struct Kept {
    Outcome plan;
    Hash graph;
    bool rewritten;
  };
  bool is_rewritten(const Outcome& plan) const;

  std::set<std::string> algebraic_;
  std::vector<Kept> kept_;  // the fastest first
};

}  // namespace unity
