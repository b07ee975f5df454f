// unity search: the plan that a strategy finds.
#include <memory>
#include <stdexcept>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/interruption.h"
#include "cli/plan_summary.h"
#include "cli/search_log_text.h"
#include "cli/search_options.h"

namespace unity::cli {
namespace {

struct Options {
  ModelOptions model;
  MachineOptions machine;
  SearchSettings settings;
  std::string strategy = "unity", output;
  bool pipeline = false, json = false;
};

void search(const Options& o) {
  if (o.pipeline)
    throw_input_error(
        "--pipeline: strategy unity does not choose pipeline stages yet; expected --strategy pipeline, which does");
  require_writable(o.output);
  SimulatedCostModel cost(o.machine.load());
  SearchOptions options = o.settings.options(o.strategy, o.model.model);
  Result<Plan> found = [&] {
    Interruption interruption;
    options.stop = &interruption.requested();
    Result<Plan> plan = search_plan(o.model, o.machine.topology, cost, options);
    if (!plan.ok() && interruption.requested()) throw std::runtime_error(plan.error().message);
    return plan;
  }();
  if (!found.ok()) throw_input_error("{}", found.error().message);
  if (!o.output.empty()) save_plan(*found, o.output);
  if (o.json) {
    nlohmann::ordered_json summary = plan_summary(*found, o.output);
    summary["search_log"] = search_log_json(found->search.log);
    fmt::print("{}\n", summary.dump(2));
    return;
  }
  plan_table({*found}).print();
  fmt::print("\nstopped: {}\n", found->search.stopped_because);
  fmt::print("{}\n", certificate_text(*found));
  for (const std::string& line : search_log_lines(*found)) fmt::print("{}\n", line);
  if (!o.output.empty()) fmt::print("plan written to {}; unity explain {} puts it in words\n", o.output, o.output);
}

}  // namespace

void add_search(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = add_command(
      app, "search", "Find a plan for a model on a machine",
      "  unity search bert-large --topology summit --nodes 2 -o plan.json\n"
      "  unity search mlp-mnist --topology summit --devices 2 --strategy data-parallel --json\n"
      "  unity search gpt-small --topology dgx-a100 --strategy pipeline --stages 4 --micro-batches 8 --schedule "
      "1f1b");
  o->model.add(*command);
  o->machine.add(*command, true);
  command->add_option("--strategy", o->strategy, "A name of 'unity list strategies'")->capture_default_str();
  o->settings.add(*command);
  command->add_flag("--pipeline", o->pipeline, "Search pipeline stages, too");
  command->add_option("-o,--output", o->output, "Write the plan to a file");
  add_json(*command, o->json);
  command->callback([o] { search(*o); });
}

}  // namespace unity::cli
