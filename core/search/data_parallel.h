// Data parallelism as a move, and choosing among plans: what several strategies build on.
#pragma once

#include "core/search/strategy.h"
#include "core/search/substitution.h"

namespace unity {

// The dimension 0 of the first input that has one. Error: the model has none.
Result<ValueRef> batch_leaf(const Pcg& pcg);

// All operators that walk the batch, split by `degree` along it. Error where that does not divide.
Result<State> shard_batch(const State& state, int degree);

// Of two plans the one that fits, else the faster; of two errors the later one. The other one goes into the log.
void take_better(Result<Outcome>& best, Result<Outcome> other, Evaluator& evaluator);

}  // namespace unity
