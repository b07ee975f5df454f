// What a strategy is. strategies.def lists them; each is one function in a source file of its own.
#pragma once

#include "core/search/evaluator.h"
#include "core/search/search.h"

namespace unity {

struct StrategyInput {
  const Pcg& model;
  Evaluator& evaluator;
  const SearchOptions& options;
  int devices = 1;
  bool one_of_several = false;  // searches at once: of its plans only what it returns goes into the log
};

struct Outcome {
  Candidate candidate;
  std::vector<DerivationStep> derivation;
  std::string stopped_because;
  std::vector<Outcome> front;   // with SearchOptions::pareto: complete plans, whether they fit or not
  std::vector<Outcome> rivals;  // the fastest plans of other kinds, which may overtake it once they are improved
};

using Strategy = Result<Outcome> (*)(const StrategyInput&);

// Those that others look at, too.
Result<Outcome> data_parallel(const StrategyInput& input);
Result<Outcome> expert(const StrategyInput& input);

// An error that says what the plan needs and what the devices have.
Error does_not_fit(const std::string& strategy, const Score& score, const Evaluator& evaluator,
                   const std::string& plan = "the smallest plan found");

}  // namespace unity
