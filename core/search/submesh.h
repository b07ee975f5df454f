// The submeshes of a machine that a stage of a pipeline can have.
#pragma once

#include "core/machine/topology.h"
#include "core/search/stage_dp.h"

namespace unity {

// As Alpa's: as many devices as divide a node, within one; or consecutive whole nodes. Of the first `devices` of the
// machine; those of one size whose devices lie as far apart from one another are of one kind.
std::vector<Submesh> submeshes(const Topology& topology, int devices);

}  // namespace unity
