#include "core/search/device_memory.h"

namespace unity {

bool copies_may_fit(const StrategyInput& input, int parts) {
  return input.devices <= kManyDevices || copies_fit(input, parts);
}

bool copies_fit(const StrategyInput& input, int parts) {
  std::int64_t bytes = 0;
  for (const Node& n : input.model.nodes())
    if (n.op->name() == "weight") bytes += n.outputs[0].shape().bytes() * (2 + input.options.optimizer.states());
  for (int d = 0; d < input.devices; ++d)
    if (input.evaluator.memory_of(DeviceId(d)).count < bytes / parts) return false;
  return true;
}

}  // namespace unity
