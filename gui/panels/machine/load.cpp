#include <algorithm>

#include "core/trace/compare.h"
#include "gui/panels/machine/places.h"

namespace unity::gui {

double MachineLoad::link_at(std::size_t link, std::int64_t time) const {
  if (link >= link_use.size()) return 0;
  const auto& use = link_use[link];
  auto after = std::upper_bound(use.begin(), use.end(), time,
                                [](std::int64_t t, const std::pair<std::int64_t, float>& s) { return t < s.first; });
  return after == use.begin() ? 0 : std::prev(after)->second;
}

MachineLoad machine_load(const Topology& topology, const PlanPrediction& prediction) {
  const Trace& trace = prediction.result.trace;
  MachineLoad load;
  load.link_mean.assign(topology.links.size(), 0);
  load.link_use.resize(topology.links.size());
  load.link_bytes.resize(topology.links.size());
  for (const LinkUsage& usage : trace.links) load.link_bytes[usage.link.index()] = usage.bytes;
  for (const LinkSample& sample : trace.link_use)
    load.link_use[sample.link.index()].emplace_back(sample.time.count, static_cast<float>(sample.fraction()));
  std::int64_t end = std::max<std::int64_t>(trace.iteration.count, 1);
  for (std::size_t l = 0; l < load.link_use.size(); ++l) {
    const auto& use = load.link_use[l];
    double sum = 0;
    for (std::size_t i = 0; i < use.size(); ++i) {
      std::int64_t until = i + 1 < use.size() ? use[i + 1].first : end;
      sum += static_cast<double>(until - use[i].first) * static_cast<double>(use[i].second);
    }
    load.link_mean[l] = sum / static_cast<double>(end);
  }
  load.device_busy.assign(topology.device_count(), 0);
  for (const DeviceUse& use : device_use(trace))
    load.device_busy[use.device.index()] = static_cast<double>(use.compute.count) / static_cast<double>(end);
  load.device_memory.assign(topology.device_count(), 0);
  for (std::size_t d = 0; d < std::min(prediction.peak_memory.size(), topology.device_count()); ++d)
    load.device_memory[d] = static_cast<double>(prediction.peak_memory[d].count) /
                            static_cast<double>(topology.spec(DeviceId(static_cast<std::int64_t>(d))).memory.count);
  return load;
}

}  // namespace unity::gui
