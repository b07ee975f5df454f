// Strategy `some-devices`: data parallelism on as many of the devices as are fastest.
#pragma once

#include "core/search/strategy.h"

namespace unity {

// In core/search, a line of strategies.def declares this.
Result<Outcome> some_devices(const StrategyInput& input);

}  // namespace unity
