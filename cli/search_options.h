// Options of the search that search, compare, run and sweep share.
#pragma once

#include <functional>
#include <string>

#include "cli/options.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"

namespace unity::cli {

// --schedule --bucket --remat --offload --weight-versions: attributes of a plan that say how it runs
// (core/plan/schedule.h).
struct ScheduleOptions {
  std::string order, bucket, remat, offload, weights;  // empty: as the plan has

  // `run` has a --schedule of its own, of the learning rate; there it is --pipeline-schedule alone.
  void add(CLI::App& command, bool short_name = true);
  // InputError on what can not be read.
  void apply(Schedule& schedule) const;
};

// --budget --alpha --seed --time-limit --memory-limit --parallelism --rules --mappings --jobs --optimizer --stages
// --parts --micro-batches, and those of ScheduleOptions.
struct SearchSettings {
  SearchOptions search;
  std::string memory_limit;
  std::string parallelism;         // comma-separated
  std::string optimizer;           // "adam 1e-4"; empty: the model's
  std::vector<std::string> rules;  // files of proved rules
  std::string mappings;            // a file of mapping families
  ScheduleOptions schedule;

  void add(CLI::App& command, bool with_budget = true, bool short_schedule = true);
  // For one strategy and model. InputError on values out of range.
  SearchOptions options(const std::string& strategy, const std::string& model) const;
  // The machine with the mapping families of the file, in place of those that its own file names. InputError.
  void add_mappings(Topology& topology) const;
};

// "a,b,c" -> {"a", "b", "c"}; InputError on empty names.
std::vector<std::string> split_list(const std::string& option, const std::string& text);

// Builds the model for the cost model's machine and searches, with a progress bar.
// With options.pareto: the front of time and memory, the fastest first.
Result<std::vector<Plan>> search_plans(const ModelOptions& model, const std::string& topology_name,
                                       const CostModel& cost, const SearchOptions& options);
Result<Plan> search_plan(const ModelOptions& model, const std::string& topology_name, const CostModel& cost,
                         const SearchOptions& options);

// The bounds of those i32 inputs of a model that index something.
std::map<std::string, std::int64_t> input_bounds(const Pcg& pcg);

}  // namespace unity::cli
