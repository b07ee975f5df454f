// Programs of plans that strategies find.
#pragma once

#include <string>

#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"

namespace unity::test {

// The model with this global batch under what the strategy finds with a small budget.
inline Program planned(const std::string& model, std::int64_t batch, const std::string& strategy,
                       const Topology& topology, const Schedule& schedule = {}) {
  ModelSpec spec{model, {{"batch", batch}}};
  SearchOptions options;
  options.strategy = strategy;
  options.budget = 40;
  options.schedule = schedule;
  Plan plan = find_plan(spec, build_model(spec), SimulatedCostModel(topology), options).value();
  LowerOptions lowered;
  lowered.schedule = schedule;
  return lower(plan.pcg, plan.mappings, topology, lowered).value();
}

}  // namespace unity::test
