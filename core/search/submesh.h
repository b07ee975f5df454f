// The submeshes of a machine that a stage of a pipeline can have.
#pragma once

#include "core/machine/topology.h"
#include "core/search/stage_dp.h"
#include "core/search/strategy.h"

namespace unity {

// As Alpa's: as many devices as divide a node, within one; or consecutive whole nodes. Of the first `devices` of the
// machine; those of one size whose devices are alike, and lie as far apart from one another, are of one kind.
std::vector<Submesh> submeshes(const Topology& topology, int devices);

// The devices of one of the kind.
Resources example(const Submesh& submesh);

// What a stage may be on; without pipelines, all devices.
bool may_have_stages(const StrategyInput& input);
std::vector<Submesh> stage_submeshes(const StrategyInput& input);
std::vector<int> stage_widths(const StrategyInput& input);

}  // namespace unity
