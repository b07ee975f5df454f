// What a row of results depends on, as hashes and texts, so that rows can be told apart that were made otherwise.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/hash.h"
#include "core/machine/topology.h"
#include "core/plan/plan.h"
#include "core/report/experiment.h"
#include "core/report/results.h"
#include "core/report/search_settings.h"

namespace unity::report {

// Columns of a row that say how it came about, in the order in which they are shown: unity_version, unity_commit,
// experiment_hash, model_hash, topology_hash, rules_hash, settings, seed, plan_hash, host, started, threads.
const std::vector<std::string>& provenance_columns();
// Those of them that the same prediction must have in common: all up to the seed.
const std::vector<std::string>& input_columns();

std::string hex(Hash hash);  // 16 digits

// All of a machine that predictions and searches depend on: Topology::hash(), hosts, measured profiles, what runs the
// collectives, and families of mappings.
Hash machine_hash(const Topology& topology);
// The library's rules and those of `further`, their texts.
Hash rules_hash(const std::vector<Rule>& further);
// What is run where: graph, mappings, schedule, optimizer, batch, machine. Not how it was found, nor what is predicted
// of it: equal for equal plans, whenever they were found.
Hash plan_hash(const Plan& plan);
// The points of a grid, with their settings.
Hash grid_hash(const std::vector<GridPoint>& grid);

// The settings of a search that its result depends on, but for the seed: "budget=4000 alpha=1.05", then those that
// differ from the defaults.
std::string settings_text(const SearchSettings& settings);

std::string utc_now();  // "2026-01-31T12:00:00Z"

// What the rows have in each of the columns: the value, or how many there are: "3 values, 0a1b.. to f0.." Columns that
// no row has are left out.
std::vector<std::pair<std::string, std::string>> provenance_summary(const std::vector<ResultRow>& rows);

}  // namespace unity::report
