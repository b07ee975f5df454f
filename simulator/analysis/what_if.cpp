#include "simulator/analysis/what_if.h"

#include <algorithm>

#include "core/base/parallel.h"
#include "core/machine/profile.h"
#include "simulator/analysis/scenario.h"

namespace unity {

std::vector<Scale> usual_scales(const Topology& topology) {
  using Kind = Scale::Kind;
  using Property = Scale::Property;
  std::vector<Scale> scales;
  bool collectives = std::any_of(topology.specs.begin(), topology.specs.end(), [&](const DeviceSpec& spec) {
    return spec.profile && spec.profile->collectives && spec.profile->collectives->of(topology);
  });
  if (!collectives) {
    for (const std::string& kind : link_kinds(topology)) scales.push_back({Kind::link, kind, Property::rate, 2});
    if (!topology.links.empty()) scales.push_back({Kind::link, "", Property::latency, 0});
  }
  scales.push_back({Kind::device, "", Property::rate, 2});
  bool measured = std::any_of(topology.specs.begin(), topology.specs.end(),
                              [](const DeviceSpec& spec) { return spec.profile != nullptr; });
  if (measured) return scales;
  scales.push_back({Kind::device, "", Property::compute, 2});
  scales.push_back({Kind::device, "", Property::memory_bandwidth, 2});
  scales.push_back({Kind::device, "", Property::launch, 0});
  return scales;
}

std::vector<WhatIf> what_if(const Program& program, const Topology& topology,
                            const std::vector<std::vector<Scale>>& cases, const SimulationOptions& options) {
  std::vector<WhatIf> results(cases.size());
  parallel_for(cases.size(), 0, [&](std::size_t i) {
    Scenario scenario(program, topology, cases[i], options);
    results[i] = {cases[i].back().text(), scenario.simulate(false).iteration};
  });
  std::stable_sort(results.begin(), results.end(),
                   [](const WhatIf& a, const WhatIf& b) { return a.iteration < b.iteration; });
  return results;
}

}  // namespace unity
