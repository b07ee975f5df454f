// unity export: a plan as a drawing, as a timeline, or as execution traces for other simulators.
#include <memory>

#include <CLI/CLI.hpp>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/graphviz.h"
#include "cli/lowered.h"
#include "cli/timeline.h"
#include "core/base/text.h"
#include "core/graph/export_dot.h"
#include "core/trace/trace_json.h"
#include "simulator/simulate.h"
#ifdef UNITY_HAS_CHAKRA
#include "core/trace/chakra/chakra.h"
#endif

namespace unity::cli {
namespace {

struct Options {
  std::string plan, format, output, trace;
};

#ifdef UNITY_HAS_CHAKRA
void write_chakra(const Program& program, const Trace& trace, const std::string& prefix) {
  std::vector<std::string> files = chakra_traces(program, trace);
  for (std::size_t d = 0; d < files.size(); ++d) write_file_atomically(fmt::format("{}.{}.et", prefix, d), files[d]);
  write_file_atomically(prefix + ".groups.json", chakra_groups(program));
  fmt::print("{0}.0.et to {0}.{1}.et and {0}.groups.json written\n", prefix, files.size() - 1);
}
#else
void write_chakra(const Program&, const Trace&, const std::string&) {
  throw_input_error("--format: chakra is not in this build (apt-get install libprotobuf-dev protobuf-compiler)");
}
#endif

void export_plan(const Options& o) {
  std::string path = o.output;
  if (path.empty())
    path = o.plan.substr(0, o.plan.rfind('.')) + (o.format == "perfetto" ? ".perfetto.json"
                                                  : o.format == "chakra" ? ""
                                                                         : "." + o.format);
  const std::vector<std::string> formats = {"dot", "svg", "perfetto", "chakra"};
  if (std::find(formats.begin(), formats.end(), o.format) == formats.end())
    throw_input_error("--format: found '{}'{}", o.format, suggestion(o.format, formats));
  if (!o.trace.empty() && (o.format == "dot" || o.format == "svg"))
    throw_input_error("--trace: found format {}, expected perfetto or chakra: drawings have no times", o.format);
  if (!is_plan_path(o.plan)) throw_input_error("export: found '{}', expected a plan file (.json)", o.plan);
  require_writable(o.format == "chakra" ? path + ".groups.json" : path);
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
    Trace trace = o.trace.empty() ? simulate(program, topology, {.fold = true, .links = o.format == "perfetto"}).trace
                                  : load_trace(o.trace);
    if (trace.program != program_hash(program))
      throw_input_error("{}: is the trace of another program than {}", o.trace, o.plan);
    if (o.format == "chakra") return write_chakra(program, trace, path);
    write_file_atomically(path, timeline_of(program, trace, topology));
  }
  fmt::print("{} written\n", path);
}

}  // namespace

void add_export(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = add_command(
      app, "export", "Write a plan as a drawing, as a timeline for the Perfetto UI, or as Chakra execution traces",
      "  unity export plan.json --format svg -o plan.svg\n"
      "  unity export plan.json --format perfetto\n"
      "  unity export plan.json --format chakra -o traces/bert");
  command->add_option("PLAN", o->plan, "A plan file")->required();
  command->add_option("--format", o->format, "dot, svg, perfetto or chakra")->required();
  output_file(command->add_option(
      "-o,--output", o->output,
      "The file to write (default: beside the plan); chakra: PREFIX of PREFIX.N.et, one for each device, "
      "and PREFIX.groups.json"));
  command->add_option("--trace", o->trace, "perfetto, chakra: a trace of this plan (default: simulate it)");
  command->callback([o] { export_plan(*o); });
}

}  // namespace unity::cli
