// unity validate: one Program, predicted by the simulator and measured by the runtime.
#include "runtime/validate.h"

#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/lowered.h"
#include "cli/processes.h"
#include "cli/table.h"
#include "core/base/text.h"
#include "core/trace/compare.h"
#include "core/trace/perfetto.h"
#include "core/trace/trace_json.h"
#include "simulator/simulate.h"

namespace unity::cli {
namespace {

struct Options {
  PlanSource source;
  ProcessOptions processes;
  std::string backend = "cpu", trace, perfetto;
  int steps = 21;
  bool json = false;
};

void validate(const Options& o, Processes& processes) {
  require_writable(o.trace);
  require_writable(o.perfetto);
  Topology topology;
  Plan plan = o.source.load(topology);
  Program program = lower_plan(plan, topology, true);
  SimulationResult predicted = simulate(program, topology, {});
  MeasureOptions options;
  options.executor.backend = o.backend;
  options.executor.processes = &processes;
  options.steps = o.steps;
  options.index_bounds = input_bounds(plan.pcg);
  Trace measured = measure(program, options);
  if (processes.rank() != 0) return;
  std::vector<std::string> names = task_names(program), groups = task_groups(program);
  Comparison c = unity::compare(predicted.trace, measured, names, groups).value();
  if (!o.trace.empty()) save_trace(measured, o.trace);
  if (!o.perfetto.empty()) {
    std::vector<std::string> devices;
    for (const Device& d : topology.devices) devices.push_back(d.name);
    const Trace* both[] = {&predicted.trace, &measured};
    write_file_atomically(o.perfetto, traces_to_perfetto(both, {names, groups, devices, {}}));
  }
  if (o.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const GroupComparison& g : c.groups)
      list.push_back({{"group", g.group},
                      {"tasks", g.tasks},
                      {"predicted_seconds", g.predicted.seconds()},
                      {"measured_seconds", g.measured.seconds()}});
    nlohmann::ordered_json out = {{"model", plan.model.name},
                                  {"topology", plan.topology},
                                  {"devices", plan.devices},
                                  {"predicted_seconds", c.predicted.seconds()},
                                  {"measured_seconds", c.measured.seconds()},
                                  {"task_mape", c.mape},
                                  {"task_rank_correlation", c.spearman},
                                  {"groups", list}};
    fmt::print("{}\n", out.dump(2));
    return;
  }
  Table table({"tasks", "count", "predicted", "measured", "predicted / measured"});
  auto ratio = [](Picoseconds p, Picoseconds m) {
    return m.count > 0 ? fmt::format("{:.2f}", static_cast<double>(p.count) / static_cast<double>(m.count))
                       : std::string("-");
  };
  for (const GroupComparison& g : c.groups)
    table.add({g.group, std::to_string(g.tasks), to_string(g.predicted), to_string(g.measured),
               ratio(g.predicted, g.measured)});
  table.add({"whole iteration", std::to_string(program.tasks.size()), to_string(c.predicted), to_string(c.measured),
             ratio(c.predicted, c.measured)});
  fmt::print("{} on {} ({} devices), backend {}: sums over tasks, median iteration of {}\n\n", plan.model.name,
             plan.topology, plan.devices, o.backend, o.steps);
  table.print();
  fmt::print("\nper task: mean absolute percentage error {:.0f}%, rank correlation {:.2f}\n", 100 * c.mape, c.spearman);
  if (!o.perfetto.empty())
    fmt::print("predicted and measured timelines written to {}; open it in ui.perfetto.dev\n", o.perfetto);
}

}  // namespace

void add_validate(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      add_command(app, "validate", "Run and simulate one program, and lay measurement over prediction, task by task",
                  "  unity validate plan.json --perfetto both.json\n"
                  "  unity validate mlp-tiny --topology laptop --devices 2");
  o->source.add(*command, "A plan file, or a model", true);
  command->add_option("--backend", o->backend, "cpu or cuda")->capture_default_str();
  o->processes.add(*command);
  at_least_one(command->add_option("--steps", o->steps, "Measured iterations; the median counts"))
      ->capture_default_str();
  command->add_option("--trace", o->trace, "Write the measured trace to a file");
  command->add_option("--perfetto", o->perfetto, "Write both timelines for the Perfetto UI");
  add_json(*command, o->json);
  command->callback([o] { with_processes(o->processes, [&](Processes& p) { validate(*o, p); }); });
}

}  // namespace unity::cli
