// unity explain: a plan in words.
#include "core/search/explain.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/lowered.h"
#include "cli/report.h"
#include "simulator/simulate.h"

namespace unity::cli {
namespace {

// With the times of a profile, where one is given.
SimulationResult predict(const Plan& plan, const std::string& path, const std::string& profile) {
  MachineOptions machine;
  machine.profile = profile;
  Topology topology = machine_of(plan, machine, path);
  return simulate(lower_plan(plan, topology, true), topology, {.trace = false});
}

// What the fullest device holds at its peak; none where the plan's machine is not at hand.
std::optional<std::array<Bytes, 5>> fullest_memory(const Plan& plan, const std::string& path) {
  try {
    SimulationResult r = predict(plan, path, {});
    auto fullest = std::max_element(r.peak_memory.begin(), r.peak_memory.end()) - r.peak_memory.begin();
    return r.memory_by_category[static_cast<std::size_t>(fullest)];
  } catch (const InputError&) {
    return std::nullopt;
  }
}

void explain(const std::string& path, const std::string& profile, bool json) {
  Plan plan = load_plan(path);
  if (!json) {
    fmt::print("{}", explain_plan(plan));
    if (auto memory = fullest_memory(plan, path))
      fmt::print("\nMemory of the fullest device at its peak\n  {}\n", by_category_text(*memory));
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
                                   {"schedule", in_words(plan.schedule)},
                                   {"blocks", blocks},
                                   {"rules", rules}};
  if (auto memory = fullest_memory(plan, path)) result["memory_by_category"] = by_category_json(*memory);
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
