// unity explain: a plan in words.
#include "core/search/explain.h"

#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/lowered.h"
#include "simulator/simulate.h"

namespace unity::cli {
namespace {

// What a profile says to the plan.
SimulationResult predict(const Plan& plan, const std::string& path, const std::string& profile) {
  MachineOptions machine;
  machine.profile = profile;
  Topology topology = machine_of(plan, machine, path);
  return simulate(lower_plan(plan, topology, true), topology, {.trace = false});
}

void explain(const std::string& path, const std::string& profile, bool json) {
  Plan plan = load_plan(path);
  if (!json) {
    fmt::print("{}", explain_plan(plan));
    if (profile.empty()) return;
    SimulationResult r = predict(plan, path, profile);
    fmt::print("\nwith {}: {} per iteration; times of {} tasks measured, of {} estimated\n", profile,
               to_string(r.iteration), r.profiled_tasks, r.estimated_tasks);
    return;
  }
  nlohmann::ordered_json blocks = nlohmann::ordered_json::array(), rules = nlohmann::ordered_json::array();
  for (const BlockExplanation& b : explain_blocks(plan.pcg))
    blocks.push_back({{"block", b.block}, {"count", b.count}, {"parallelism", b.sentences}});
  for (const RuleSummary& r : summarise_derivation(plan))
    rules.push_back({{"rule", r.rule}, {"degree", r.degree}, {"count", r.count}, {"where", r.places}});
  nlohmann::ordered_json result = {{"model", plan.model.name},
                                   {"topology", plan.topology},
                                   {"strategy", plan.search.strategy},
                                   {"blocks", blocks},
                                   {"rules", rules}};
  if (!profile.empty()) {
    SimulationResult r = predict(plan, path, profile);
    result["iteration_seconds"] = r.iteration.seconds();
    result["profiled_tasks"] = r.profiled_tasks;
    result["estimated_tasks"] = r.estimated_tasks;
  }
  fmt::print("{}\n", result.dump(2));
}

}  // namespace

void add_explain(CLI::App& app) {
  auto path = std::make_shared<std::string>();
  auto profile = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = add_command(app, "explain", "Say in words how a plan parallelises, and which rules led there",
                                  "  unity explain plan.json");
  command->add_option("PLAN", *path, "A plan file")->required();
  command->add_option("--profile", *profile, "Say what a file of 'unity profile' predicts, too");
  add_json(*command, *json);
  command->callback([path, profile, json] { explain(*path, *profile, *json); });
}

}  // namespace unity::cli
