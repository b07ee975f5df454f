// What experts do with recommendation models: tables whole on devices, all else split by batch.
#pragma once

#include "core/search/strategy.h"

namespace unity {

// The tables of embedding bags by model (DLRM; Naumov et al., 2019, section 4), each on one device or by columns on
// several, biggest first, where the fewest bytes of tables are; all other operators split by batch over all devices, in
// front of them an exchange of all features. The fastest number of columns' parts, and of tables placed along nodes or
// across them. Tables of fewer bytes than `smallest` are copied, and split by batch like all else. Error when the model
// has fewer than two larger ones, or none so small.
Result<Outcome> placed_tables(const StrategyInput& input, Bytes smallest = {});

}  // namespace unity
