// From a plan file, or a model with a strategy, to the Program that both executors take.
#pragma once

#include <string>

#include "cli/search_options.h"
#include "core/machine/precision.h"
#include "core/plan/lower.h"

namespace unity::cli {

// The plan of a file (checked against its machine and its memory), or found for a model.
struct PlanSource {
  ModelOptions model;  // its `model` is a plan file or a model
  MachineOptions machine;
  SearchSettings settings;
  std::string strategy = "data-parallel";

  void add(CLI::App& command, const std::string& what, bool models, bool short_schedule = true);
  // For commands that take several plans or models: the options without the name; of() puts one in.
  void add_options(CLI::App& command, bool models, bool with_budget = true, bool short_schedule = true);
  PlanSource of(const std::string& plan_or_model) const;
  // InputError; also when options of the search are given for a plan, which has its own; only the optimizer and the
  // schedule may replace the plan's. A search counts memory in f32; where nothing fits so, and no limit is given, it is
  // left to lower_plan() to say what a run in another precision needs.
  Plan load(Topology& topology, Precision precision = Precision::f32) const;
  // The same, of what is run: also when its first output is no scalar, the loss.
  Plan load_to_train(Topology& topology, Precision precision) const;

 private:
  std::vector<const CLI::Option*> for_models_;
  bool seeds_runs_ = false;  // --seed is also of what is run
};

// DoesNotFit when the plan, in that precision, needs more memory than a device has.
Program lower_plan(const Plan& plan, const Topology& topology, bool training, Precision precision = Precision::f32);
// The same, of peaks by device.
void require_memory(const Plan& plan, const std::vector<Bytes>& peaks, const Topology& topology);
// Says on standard error which of the schedule's settings change nothing of the plan: it is lowered without each of
// them. Nothing is said of plans whose lowering takes long.
void warn_of_no_effect(const report::ScheduleSettings& asked, const Plan& plan, const Topology& topology);

}  // namespace unity::cli
