// Options of the search that search, compare, run and sweep share.
#pragma once

#include <functional>
#include <string>

#include "cli/options.h"
#include "core/report/search_settings.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"

namespace unity::cli {

using report::ScheduleSettings;
using report::SearchSettings;
using report::split_list;

// --schedule --overlap --bucket --remat --offload --weight-versions --zero-stage --fuse. `run` has a --schedule of its
// own, of the learning rate; there it is --pipeline-schedule alone.
void add_schedule_options(CLI::App& command, ScheduleSettings& settings, bool short_name = true);
// Those of setting_fields(), and those above.
void add_search_options(CLI::App& command, SearchSettings& settings, bool with_budget = true,
                        bool short_schedule = true);

// Builds the model for the cost model's machine and searches, with a progress bar.
// With options.pareto: the front of time and memory, the fastest first.
Result<std::vector<Plan>> search_plans(const ModelOptions& model, const std::string& topology_name,
                                       const CostModel& cost, const SearchOptions& options);
Result<Plan> search_plan(const ModelOptions& model, const std::string& topology_name, const CostModel& cost,
                         const SearchOptions& options);

// The bounds of those inputs of a model that index something, or are labels. They are the model's, whatever a plan
// makes of it: a rule may lengthen a table.
std::map<std::string, std::int64_t> input_bounds(const ModelSpec& model);

}  // namespace unity::cli
