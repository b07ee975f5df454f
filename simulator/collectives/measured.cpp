#include "simulator/collectives/measured.h"

#include <algorithm>

#include "core/base/longest_time.h"
#include "core/machine/profile.h"
#include "simulator/collectives/running.h"

namespace unity {
namespace {

// Exact: where several flows go at once, CollectiveShape::idle_time() is a bound.
Picoseconds modelled(const CollectiveChoice& choice, const Topology& topology) {
  const std::vector<CollectiveStage>& stages = choice.shape->stages;
  bool one_flow = std::all_of(stages.begin(), stages.end(),
                              [](const CollectiveStage& s) { return s.end - s.first == 1 && s.busy.empty(); });
  if (one_flow) return choice.predicted();
  auto alone = std::make_shared<CollectiveChoice>();
  alone->shape = choice.shape;
  alone->bytes = choice.bytes;
  return simulate_alone(topology, std::move(alone), {}, false).time;
}

}  // namespace

const MeasuredCollectives* collectives_measured_on(const Topology& topology, DeviceId device) {
  const DeviceSpec& spec = topology.spec(device);
  if (!spec.profile || !spec.profile->collectives) return nullptr;
  return spec.profile->collectives->of(topology) ? &*spec.profile->collectives : nullptr;
}

void stretch(CollectiveChoice& choice, Picoseconds measured, const Topology& topology) {
  if (!choice.shape) return;
  Picoseconds model = modelled(choice, topology);
  if (model.count <= 0) return;
  auto shape = std::make_unique<CollectiveShape>(*choice.shape);
  shape->stretch(static_cast<double>(measured.count) / static_cast<double>(model.count));
  choice.shape = shape.get();
  choice.own = std::move(shape);
  choice.reason = ChoiceReason::measured;
  choice.alternatives.resize(1);
  choice.alternatives.front().time = measured;
}

}  // namespace unity
