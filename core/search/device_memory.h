// What devices can hold, before anything is lowered.
#pragma once

#include "core/search/strategy.h"

namespace unity {

// Whether each device could hold one of so many parts of all weights, their gradients and optimizer states.
bool copies_fit(const StrategyInput& input, int parts = 1);
// The same; on few devices it is not worth the question.
bool copies_may_fit(const StrategyInput& input, int parts = 1);

}  // namespace unity
