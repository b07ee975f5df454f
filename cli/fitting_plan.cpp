#include "cli/fitting_plan.h"

#include "core/models/models.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"

namespace unity::cli {
namespace {

constexpr double kSeconds = 20;

std::string command_for(const Plan& plan, const PlanSource& source, Bytes limit) {
  std::string text = fmt::format("unity search {} --topology {}", plan.model.name, plan.topology);
  if (plan.nodes > 1) text += fmt::format(" --nodes {}", plan.nodes);
  text += fmt::format(" --devices {}", plan.devices);
  for (const auto& [name, value] : plan.model.options) text += fmt::format(" --option {}={}", name, value);
  if (!source.machine.profile.empty()) text += fmt::format(" --profile '{}'", source.machine.profile);
  for (const std::string& file : source.settings.rules) text += fmt::format(" --rules '{}'", file);
  if (!source.settings.mappings.empty()) text += fmt::format(" --mappings '{}'", source.settings.mappings);
  return text + fmt::format(" --optimizer '{}' --memory-limit {} -o fits.json", to_text(plan.optimizer), limit.count);
}

}  // namespace

std::string fitting_plan(const Plan& plan, const PlanSource& source, const Topology& topology, Bytes limit) {
  if (limit.count <= 0) return "no plan was searched for, as there is no memory left";
  SimulatedCostModel cost(topology);
  SearchSettings settings;
  settings.rules = source.settings.rules;
  SearchOptions options = settings.options("unity", plan.model.name);
  options.optimizer = plan.optimizer;
  options.memory_limit = limit;
  options.time_limit = kSeconds;
  Result<Plan> found = find_plan(plan.model, build_model(plan.model), cost, options);
  if (!found.ok()) return fmt::format("and no plan was found that fits: {}", found.error().message);
  return fmt::format("a plan that fits needs {} and takes {} an iteration (predicted, in f32): {}",
                     to_string(found->prediction.peak_memory), to_string(found->prediction.iteration),
                     command_for(plan, source, limit));
}

}  // namespace unity::cli
