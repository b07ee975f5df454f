// unity explain: a plan in words.
#include "core/search/explain.h"

#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/options.h"

namespace unity::cli {
namespace {

void explain(const std::string& path, bool json) {
  Plan plan = load_plan(path);
  if (!json) {
    fmt::print("{}", explain_plan(plan));
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
  fmt::print("{}\n", result.dump(2));
}

}  // namespace

void add_explain(CLI::App& app) {
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = add_command(app, "explain", "Say in words how a plan parallelises, and which rules led there",
                                  "  unity explain plan.json");
  command->add_option("PLAN", *path, "A plan file")->required();
  add_json(*command, *json);
  command->callback([path, json] { explain(*path, *json); });
}

}  // namespace unity::cli
