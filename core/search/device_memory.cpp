#include "core/search/device_memory.h"

namespace unity {

bool copies_may_fit(const StrategyInput& input, int parts) {
  if (input.devices <= kManyDevices) return true;
  std::int64_t bytes = 0;
  for (const Node& n : input.model.nodes())
    if (n.op->name() == "weight") bytes += n.outputs[0].shape().bytes() * (2 + input.options.optimizer.states());
  for (int d = 0; d < input.devices; ++d)
    if (input.evaluator.memory_of(DeviceId(d)).count < bytes / parts) return false;
  return true;
}

Hash plan_hash(const Outcome& plan) {
  return combine(canonical_hash(plan.candidate.pcg), schedule_hash(plan.candidate.schedule));
}

}  // namespace unity
