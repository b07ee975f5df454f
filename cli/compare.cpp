// unity compare: several strategies side by side.
#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/interruption.h"
#include "cli/plan_summary.h"
#include "cli/scale_options.h"
#include "cli/search_options.h"
#include "core/base/text.h"

namespace unity::cli {
namespace {

struct Options {
  ModelOptions model;
  MachineOptions machine;
  SearchSettings settings;
  ScaleOptions scales;
  std::string strategies = "data-parallel,expert,unity", output;
  bool json = false;
};

// By strategy, the options that it does not take. Those that none of them takes are refused.
std::map<std::string, std::vector<std::string>> left_out_of(const std::vector<std::string>& names, const Options& o) {
  std::map<std::string, std::vector<std::string>> left_out;
  std::map<std::string, std::size_t> refusals;  // by option
  for (const std::string& name : names) {
    left_out[name] = not_taken(o.settings.options(name, o.model.model));
    for (const std::string& option : left_out[name])
      if (++refusals[option] == names.size())
        throw_input_error("compare: --{} is taken by none of {}", option, join(names));
  }
  return left_out;
}

void compare(const Options& o) {
  require_writable(o.output);
  std::vector<std::string> names = split_list("--strategies", o.strategies);
  for (const std::string& name : names) {
    std::vector<std::string> known = strategy_names();
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw_input_error("--strategies: '{}' is not known{}", name, suggestion(name, known));
  }
  Topology topology = o.machine.load();
  o.settings.add_mappings(topology);
  std::vector<Scale> scales = o.scales.parse();
  for (const Scale& scale : scales)
    if (scale.kind == Scale::Kind::task)
      throw_input_error("compare: --scale {}: found an operator, expected links or devices, for which plans are sought",
                        scale.text());
  apply_scales(scales, topology);
  SimulatedCostModel cost(std::move(topology));
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  Table table = empty_plan_table();
  std::vector<std::string> failures;
  const std::map<std::string, std::vector<std::string>> left_out = left_out_of(names, o);
  std::optional<Plan> best;
  // Ctrl-C ends the search under way with its best so far; those after it are not begun.
  Interruption interruption("stopping with the best so far");
  const std::string why = "not searched: interrupted";
  for (const std::string& name : names) {
    SearchOptions options = o.settings.options(name, o.model.model);
    leave_out(options, left_out.at(name));
    options.stop = &interruption.requested();
    const bool late = interruption.requested();
    auto plan = late ? Result<Plan>(fail("strategy {}: {}", name, why))
                     : search_plan(o.model, o.machine.topology, cost, options);
    if (!plan.ok()) {
      list.push_back({{"model", o.model.model},
                      {"topology", o.machine.topology},
                      {"devices", cost.topology().device_count()},
                      {"strategy", name},
                      {"error", plan.error().message}});
      table.add({name, "-", "-", "-", "-", "-", "-", "-"});
      failures.push_back(plan.error().message);
      continue;
    }
    list.push_back(plan_summary(*plan));
    table.add(plan_row(*plan));
    if (plan->search.log.interrupted && interruption.requested())
      failures.push_back(fmt::format("strategy {}: stopped: interrupted, with the best so far", name));
    if (!best || plan->prediction.iteration < best->prediction.iteration) best = std::move(*plan);
  }
  if (best && !o.output.empty()) {
    save_plan(*best, o.output);
    for (auto& entry : list)
      if (entry["strategy"] == best->search.strategy) entry["plan"] = o.output;
  }
  for (auto& entry : list)
    if (const auto& options = left_out.at(entry["strategy"]); !options.empty()) entry["not_taken"] = options;
  for (auto& entry : list)
    for (const Scale& scale : scales) entry["scale"].push_back(scale.text());
  // What is printed has the reasons; the exit code says that there is no plan.
  auto require_plan = [&] {
    if (best) return;
    const std::string unwritten = o.output.empty() ? "" : fmt::format("; {} is not written", o.output);
    if (interruption.requested())
      throw std::runtime_error(fmt::format("compare: interrupted before any strategy had a plan{}", unwritten));
    throw std::runtime_error(fmt::format("compare: no strategy has a plan{}", unwritten));
  };
  if (o.json) {
    fmt::print("{}\n", list.dump(2));
    return require_plan();
  }
  fmt::print("{} on {} ({} devices)\n", o.model.model, o.machine.topology, cost.topology().device_count());
  for (const Scale& scale : scales) fmt::print("with {}\n", scale.text());
  fmt::print("\n");
  table.print();
  for (const auto& [name, options] : left_out)
    if (!options.empty()) fmt::print("{} does not take --{}\n", name, fmt::join(options, ", --"));
  for (const std::string& failure : failures) fmt::print("{}\n", failure);
  require_plan();
  fmt::print("\nfastest: {}{}\n{}\n", best->search.strategy, o.output.empty() ? "" : ", written to " + o.output,
             certificate_text(*best));
}

}  // namespace

void add_compare(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      add_command(app, "compare", "Compare what several strategies find",
                  "  unity compare bert-large --topology summit --nodes 2 --strategies data-parallel,expert,unity\n"
                  "  unity compare mlp-mnist --topology summit --nodes 1 --devices 2 --batch-per-gpu 32 --json");
  o->model.add(*command);
  o->machine.add(*command, true);
  command->add_option("--strategies", o->strategies, "Names of 'unity list strategies', comma-separated")
      ->capture_default_str();
  add_search_options(*command, o->settings);
  // A plan is of the machine as its files say.
  o->scales.add(*command,
                output_file(command->add_option("-o,--output", o->output, "Write the fastest plan to a file")));
  add_json(*command, o->json);
  command->callback([o] { compare(*o); });
}

}  // namespace unity::cli
