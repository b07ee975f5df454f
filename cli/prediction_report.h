// What explain says of a plan's predicted iteration: bounds, critical path, devices, links, collectives, what-ifs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/plan/plan.h"
#include "simulator/analysis/bounds.h"
#include "simulator/analysis/network_report.h"
#include "simulator/analysis/scenario.h"
#include "simulator/analysis/what_if.h"

namespace unity::cli {

struct PredictionReport {
  SimulationResult result;
  double samples_per_second = 0;
  LowerBounds bounds;
  std::optional<double> model_seconds, executed_seconds;  // FLOPs at the peaks of all devices (seconds_at_peak)
  std::vector<BusyLink> links;                            // the ten busiest
  std::vector<CollectiveSummary> collectives;
  std::vector<WhatIf> what_ifs;  // empty unless asked for
};

PredictionReport report_prediction(const Plan& plan, const Scenario& scenario);

void print_prediction(const PredictionReport& report, const Scenario& scenario);
// iteration_seconds, samples_per_second, .. (docs/commands.md)
nlohmann::ordered_json prediction_json(const PredictionReport& report, const Scenario& scenario);

// FLOPs that training the plan's graph takes, by element type, without what copies repeat or schedules recompute: the
// contractions' multiply-adds, two FLOPs each, once forward and twice backward, or once where no weight stands before
// the data, so that these need no gradient.
std::map<DType, double> model_flops(const Pcg& pcg);

}  // namespace unity::cli
