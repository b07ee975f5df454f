#include "cli/search_options.h"

#include <CLI/CLI.hpp>

#include "cli/progress.h"
#include "core/base/text.h"
#include "core/graph/evaluate.h"

namespace unity::cli {
namespace {

void add_field(CLI::App& command, const report::SettingField& field, const std::string& names) {
  std::visit(
      [&](auto* value) {
        using Value = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, bool>) {
          command.add_flag("!" + names, *value, field.help);
        } else {
          CLI::Option* option = command.add_option(names, *value, field.help);
          if constexpr (std::is_same_v<Value, int>) at_least_one(option);
          if constexpr (std::is_unsigned_v<Value>) from_zero(option);
          // 0 stands for a default that the help says.
          if constexpr (std::is_arithmetic_v<Value>)
            if (*value != Value{}) option->capture_default_str();
        }
      },
      field.value);
}

}  // namespace

void add_schedule_options(CLI::App& command, ScheduleSettings& settings, bool short_name) {
  for (const report::SettingField& field : report::setting_fields(settings))
    add_field(command, field,
              field.name != "schedule" ? "--" + field.name
              : short_name             ? "--schedule,--pipeline-schedule"
                                       : "--pipeline-schedule");
}

void add_search_options(CLI::App& command, SearchSettings& settings, bool with_budget, bool short_schedule) {
  for (const report::SettingField& field : report::setting_fields(settings))
    if (with_budget || field.name != "budget") add_field(command, field, "--" + field.name);
  add_schedule_options(command, settings.schedule, short_schedule);
}

Result<std::vector<Plan>> search_plans(const ModelOptions& model, const std::string& topology_name,
                                       const CostModel& cost, const SearchOptions& options) {
  ModelSpec spec = model.spec(static_cast<int>(cost.topology().device_count()));
  Pcg pcg = build_model(spec);
  Progress bar(fmt::format("{} {}", options.strategy, spec.name));
  SearchOptions with_progress = options;
  with_progress.progress = [&](const SearchProgress& p) {
    bar.update(static_cast<std::int64_t>(p.fraction * 1000), 1000,
               fmt::format("{} candidates, {}", p.candidates, p.stage));
  };
  std::vector<Plan> plans = UNITY_TRY(find_plans(spec, pcg, cost, with_progress));
  for (Plan& plan : plans) plan.topology = topology_name;
  return plans;
}

Result<Plan> search_plan(const ModelOptions& model, const std::string& topology_name, const CostModel& cost,
                         const SearchOptions& options) {
  std::vector<Plan> plans = UNITY_TRY(search_plans(model, topology_name, cost, options));
  return std::move(plans.front());
}

std::map<std::string, std::int64_t> input_bounds(const ModelSpec& model) {
  const Pcg pcg = build_model(model);
  std::map<std::string, std::int64_t> bounds;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& n = pcg.nodes()[i];
    if (n.op->name() != "input") continue;
    std::int64_t bound = index_bound(pcg, NodeId(static_cast<std::int64_t>(i)));
    if (bound != kNoIndexBound) bounds[n.name] = bound;
  }
  return bounds;
}

}  // namespace unity::cli
