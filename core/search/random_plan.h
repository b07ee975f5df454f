// Random parallelizations of a model, and random machine mappings for them: plans that no strategy would choose, to
// test executors and to judge predictions.
#pragma once

#include <random>

#include "core/rewrite/normalize.h"
#include "core/search/mapping_search.h"
#include "core/search/substitution.h"

namespace unity {

// Up to five random rule applications and shardings that fit `devices`; no moves when none was found.
State random_state(const Pcg& serial, int devices, std::mt19937_64& random);

std::vector<MachineMapping> random_mappings(const Pcg& pcg, const Topology& topology, std::mt19937_64& random);

}  // namespace unity
