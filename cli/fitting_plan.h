// What to run where a plan does not fit.
#pragma once

#include <string>

#include "cli/lowered.h"
#include "core/machine/topology.h"
#include "core/plan/plan.h"

namespace unity::cli {

// Searches for a plan for the model and optimizer of `plan` on its machine that needs no more than `limit` on any
// device, with the profile, the rules and the mapping families that `source` names, for some seconds; says with which
// command it is found, what it needs and how fast it is, or that none was found.
std::string fitting_plan(const Plan& plan, const PlanSource& source, const Topology& topology, Bytes limit);

}  // namespace unity::cli
