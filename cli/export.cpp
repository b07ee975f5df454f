// unity export: a plan as a drawing or as a timeline.
#include <memory>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/graphviz.h"
#include "cli/lowered.h"
#include "core/base/text.h"
#include "core/graph/export_dot.h"
#include "core/trace/perfetto.h"
#include "core/trace/trace_json.h"
#include "simulator/simulate.h"

namespace unity::cli {
namespace {

struct Options {
  std::string plan, format, output, trace;
};

void export_plan(const Options& o) {
  std::string path = o.output;
  if (path.empty())
    path = o.plan.substr(0, o.plan.rfind('.')) + (o.format == "perfetto" ? ".perfetto.json" : "." + o.format);
  const std::vector<std::string> formats = {"dot", "svg", "perfetto"};
  if (std::find(formats.begin(), formats.end(), o.format) == formats.end())
    throw_input_error("--format: found '{}'{}", o.format, suggestion(o.format, formats));
  if (!is_plan_path(o.plan)) throw_input_error("export: found '{}', expected a plan file (.json)", o.plan);
  require_writable(path);
  PlanSource source;
  source.model.model = o.plan;
  Topology topology;
  Plan plan = source.load(topology);
  if (o.format == "dot") {
    write_file_atomically(path, to_dot(plan.pcg));
  } else if (o.format == "svg") {
    write_svg(to_dot(plan.pcg), path);
  } else {
    Program program = lower_plan(plan, topology, true);
    Trace trace = o.trace.empty() ? simulate(program, topology, {}).trace : load_trace(o.trace);
    if (trace.program != program_hash(program))
      throw_input_error("{}: is the trace of another program than {}", o.trace, o.plan);
    std::vector<std::string> names = task_names(program), groups = task_groups(program), devices;
    for (const Device& d : topology.devices) devices.push_back(d.name);
    write_file_atomically(path, trace_to_perfetto(trace, {names, groups, devices, {}}));
  }
  fmt::print("{} written\n", path);
}

}  // namespace

void add_export(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      add_command(app, "export", "Write a plan as a drawing or its predicted timeline for the Perfetto UI",
                  "  unity export plan.json --format svg -o plan.svg\n"
                  "  unity export plan.json --format perfetto");
  command->add_option("PLAN", o->plan, "A plan file")->required();
  command->add_option("--format", o->format, "dot, svg or perfetto")->required();
  command->add_option("-o,--output", o->output, "The file to write (default: beside the plan)");
  command->add_option("--trace", o->trace, "perfetto: a trace of this plan (default: simulate it)");
  command->callback([o] { export_plan(*o); });
}

}  // namespace unity::cli
