// Operators with large weights and little to do, as lookups in tables are: on devices of their own, while all else is
// split by batch over all of them. Moving what they read and make is then less than summing their weights' gradients.
// Of parallelism (parallelism.h) that takes data, where the placed ones are cut in columns also model.
#pragma once

#include "core/search/strategy.h"

namespace unity {

// What experts do with recommendation models (DLRM; Naumov et al., 2019, section 4): the tables of all embedding bags,
// each on one device or by columns on several, biggest first, where the fewest bytes of tables are; all other operators
// split by batch. The fastest number of columns' parts, and of tables placed along nodes or across them. Error when
// there are fewer than two.
Result<Outcome> placed_tables(const StrategyInput& input);

// The same of any operators with one weight, which no other reads, whose gradient takes longer to be summed over all
// devices (beyond the latency, where gradients are joined in buckets) than the operator takes for the whole batch on
// one of them, forth and back. How many of them, clearest cases first, is chosen by simulation, and so is whether
// devices have equal bytes of weights or equal work. Error when there are fewer than two.
Result<Outcome> placed_operators(const StrategyInput& input, Bytes bucket);

}  // namespace unity
