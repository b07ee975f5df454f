// unity simulate: the predicted iteration of a plan, or bare flows on a topology.
#include "simulator/simulate.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/checks.h"
#include "cli/collectives.h"
#include "cli/commands.h"
#include "cli/iterations.h"
#include "cli/lowered.h"
#include "cli/noise_options.h"
#include "cli/path_report.h"
#include "cli/plan_summary.h"
#include "cli/scale_options.h"
#include "cli/table.h"
#include "cli/timeline.h"
#include "core/base/text.h"
#include "core/trace/compare.h"
#include "core/trace/trace_json.h"
#include "simulator/analysis/scenario.h"
#include "simulator/network/playground.h"

namespace unity::cli {
namespace {

struct Options {
  std::string plan, flows, trace, trace_format;
  MachineOptions machine;
  ScaleOptions scales;
  CollectiveSettings settings;
  AloneOptions alone;
  ScheduleSettings schedule;
  NoiseOptions noise;
  IterationOptions iterations;
  bool critical_path = false, collectives = false, routes = false, whole = false, json = false;
};

// The links of the machine, and for each flow which of them it crosses.
void add_routes(nlohmann::ordered_json& out, const TransferGraph& graph, const Topology& topology) {
  nlohmann::ordered_json links = nlohmann::ordered_json::array();
  for (const Link& l : topology.links)
    links.push_back({{"from", topology.vertices[l.from.index()].name},
                     {"to", topology.vertices[l.to.index()].name},
                     {"bytes_per_second", l.bandwidth.rate},
                     {"latency_s", l.latency.seconds()}});
  out["links"] = std::move(links);
  for (TransferIndex t = 0; t < graph.size(); ++t) {
    nlohmann::ordered_json route = nlohmann::ordered_json::array();
    for (const LinkUse& use : graph.links(t)) route.push_back(use.link);
    out["flows"][t]["links"] = std::move(route);
  }
}

void simulate_flows_file(const Options& o) {
  if (o.machine.topology.empty()) throw_input_error("simulate: --flows needs --topology");
  Topology topology = o.machine.load();
  std::vector<PlaygroundFlow> flows = flows_from_json(read_file(o.flows), o.flows);
  TransferGraph graph = transfers_of(flows, topology, o.flows);
  std::vector<Picoseconds> ends = simulate_transfers(graph, topology);
  Picoseconds end;
  for (Picoseconds e : ends) end = std::max(end, e);
  if (o.json) {
    nlohmann::ordered_json out = {{"flows", nlohmann::ordered_json::array()}, {"end_s", end.seconds()}};
    for (std::size_t i = 0; i < flows.size(); ++i) {
      nlohmann::ordered_json id = flows[i].id;
      if (flows[i].numeric_id) id = nlohmann::ordered_json::parse(flows[i].id);
      out["flows"].push_back({{"id", std::move(id)}, {"finish_s", ends[i].seconds()}});
    }
    if (o.routes) add_routes(out, graph, topology);
    fmt::print("{}\n", out.dump(2));
    return;
  }
  Table table({"flow", "from", "to", "bytes", "finish"});
  for (std::size_t i = 0; i < flows.size(); ++i)
    table.add({flows[i].id, flows[i].src, flows[i].dst, to_string(flows[i].bytes), to_string(ends[i])});
  table.print();
  fmt::print("\nend: {}\n", to_string(end));
}

void write_trace(const Options& o, const Program& program, const Trace& trace, const Topology& topology) {
  if (o.trace.empty()) return;
  bool timeline = o.trace_format.empty() ? o.trace.ends_with(".perfetto.json") : o.trace_format == "perfetto";
  if (timeline)
    write_file_atomically(o.trace, timeline_of(program, trace, topology));
  else
    save_trace(trace, o.trace);
}

void simulate_plan(const Options& o) {
  require_writable(o.trace);
  const std::vector<std::string> formats = {"unity", "perfetto"};
  if (!o.trace_format.empty() && std::find(formats.begin(), formats.end(), o.trace_format) == formats.end())
    throw_input_error("--trace-format: found '{}'{}", o.trace_format, suggestion(o.trace_format, formats));
  std::vector<Scale> scales = o.scales.parse();
  PlanSource source;
  source.model.model = o.plan;
  source.machine = o.machine;
  source.settings.schedule = o.schedule;
  if (!is_plan_path(o.plan))
    throw_input_error("simulate: found '{}', expected a plan file (.json); unity search writes one", o.plan);
  Topology topology;
  Plan plan = source.load(topology);
  warn_of_estimates(plan, topology, o.plan);
  warn_of_no_effect(o.schedule, plan, topology);
  Program step = lower_plan(plan, topology, true);
  Program program = several_iterations(plan, step, o.iterations.count(plan.schedule));
  SimulationOptions options{
      .fold = !o.whole, .steps = o.settings.steps, .collectives = o.settings.options(), .noise = o.noise.noise()};
  std::optional<SimulationResult> unscaled;
  if (!scales.empty()) {
    unscaled = Scenario(program, topology, {}, options).simulate(true);
    take_steady_iteration(program, *unscaled);
  }
  Scenario scenario(program, topology, scales, options);
  SimulationResult result = scenario.simulate(true);
  require_memory(plan, result.peak_memory, topology);
  write_trace(o, program, result.trace, topology);
  SteadyState steady = take_steady_iteration(program, result);
  std::vector<DeviceUse> use = device_use(
      program.iterations > 1 ? cut(result.trace, steady.from, steady.to) : result.trace, topology.device_count());
  if (o.json) {
    nlohmann::ordered_json devices = nlohmann::ordered_json::array();
    for (const DeviceUse& u : use)
      devices.push_back({{"device", topology.device(u.device).name},
                         {"compute_seconds", u.compute.seconds()},
                         {"communication_seconds", u.communication.seconds()},
                         {"hidden_seconds", u.hidden.seconds()},
                         {"copies_alone_seconds", u.copies.seconds()},
                         {"idle_seconds", u.idle.seconds()},
                         {"peak_memory_bytes", result.peak_memory[u.device.index()].count},
                         {"memory_by_category", by_category_json(result.memory_by_category[u.device.index()])}});
    nlohmann::ordered_json out = {
        {"model", plan.model.name},
        {"topology", plan.topology},
        {"iteration_seconds", result.iteration.seconds()},
        {"samples_per_second", static_cast<double>(plan.global_batch) / result.iteration.seconds()},
        {"communication_bytes", step.communicated().count},
        {"tasks", program.tasks.size()},
        {"profiled_tasks", result.profiled_tasks},
        {"estimated_tasks", result.estimated_tasks},
        {"devices", devices}};
    out.update(steady_json(steady));
    if (unscaled) out.update(change_json(scales, *unscaled, result));
    if (o.critical_path) out["critical_path"] = steps_json(report_path(program, result.trace).steps, program, topology);
    if (o.collectives) out["collectives"] = collectives_json(program, result);
    fmt::print("{}\n", out.dump(2));
    return;
  }
  fmt::print(
      "{} on {}: {} per iteration, {:.1f} samples/s, {} communicated, {} tasks{}{}\n\n", plan.model.name, plan.topology,
      to_string(result.iteration), static_cast<double>(plan.global_batch) / result.iteration.seconds(),
      to_string(step.communicated()), program.tasks.size(),
      program.iterations > 1 ? fmt::format(" in {} iterations", program.iterations) : std::string(),
      result.profiled_tasks ? fmt::format(" ({} measured, {} estimated)", result.profiled_tasks, result.estimated_tasks)
                            : std::string());
  if (program.iterations > 1) fmt::print("{}\n\n", steady_text(steady));
  if (unscaled) print_change(scales, program, *unscaled, result);
  const bool copies = std::any_of(use.begin(), use.end(), [](const DeviceUse& u) { return u.copies.count > 0; });
  std::vector<std::string> columns = {"device", "compute", "communication", "of that hidden", "idle", "peak memory"};
  if (copies) columns.insert(columns.begin() + 4, "copies alone");
  Table table(columns);
  for (const DeviceUse& u : use) {
    std::vector<std::string> cells = {topology.device(u.device).name,
                                      to_string(u.compute),
                                      to_string(u.communication),
                                      to_string(u.hidden),
                                      to_string(u.idle),
                                      to_string(result.peak_memory[u.device.index()])};
    if (copies) cells.insert(cells.begin() + 4, to_string(u.copies));
    table.add(cells);
  }
  table.print();
  auto fullest = std::max_element(result.peak_memory.begin(), result.peak_memory.end()) - result.peak_memory.begin();
  fmt::print("\nat the peak of {}: {}\n", topology.device(DeviceId(fullest)).name,
             by_category_text(result.memory_by_category[static_cast<std::size_t>(fullest)]));
  if (o.collectives) print_collectives(program, result);
  if (o.critical_path) print_path(report_path(program, result.trace), program, topology, result.trace.iteration);
  if (!o.trace.empty()) fmt::print("\ntrace written to {}\n", o.trace);
}

// Options without which `what` would be the same are refused, not ignored.
void refuse_others(const CLI::App& command, std::string_view what, std::vector<std::string> used) {
  used.insert(used.end(), {"--topology", "--nodes", "--devices", "--json"});
  for (const CLI::Option* option : command.get_options())
    if (option->count() > 0 && std::find(used.begin(), used.end(), option->get_name()) == used.end())
      throw_input_error("simulate: {} excludes {}", option->get_name(), what);
}

}  // namespace

void add_simulate(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      add_command(app, "simulate", "Predict one iteration of a plan, or simulate bare flows or a collective",
                  "  unity simulate plan.json --trace trace.json\n"
                  "  unity simulate --flows flows.json --topology summit --nodes 2 --json\n"
                  "  unity simulate --collective all_reduce --bytes '1 GB' --topology dgx-h100");
  CLI::Option* plan = command->add_option("PLAN", o->plan, "A plan file");
  CLI::Option* flows =
      command
          ->add_option("--flows", o->flows,
                       "Flows as JSON: {\"flows\": [{\"id\", \"src\", \"dst\", \"bytes\", \"start_s\", \"after\"}]}")
          ->excludes(plan);
  CLI::Option* routes = command
                            ->add_flag("--routes", o->routes,
                                       "With --flows and --json: list the links, and which of them each flow crosses")
                            ->needs(flows);
  o->machine.add(*command, false);
  add_schedule_options(*command, o->schedule);
  CLI::Option* trace =
      output_file(
          command->add_option(
              "--trace", o->trace,
              "Write the simulated trace, with the use of links, to a file; one for the Perfetto UI if its name ends "
              "in .perfetto.json"))
          ->excludes(flows);
  command->add_option("--trace-format", o->trace_format, "unity or perfetto, whatever the file's name")
      ->needs(trace)
      ->excludes(flows);
  o->scales.add(*command, flows);
  o->noise.add(*command, flows);
  o->iterations.add(*command);
  command
      ->add_flag(
          "--no-fold", o->whole,
          "Simulate every device; else one of each class of devices that do the same, which gives the same times")
      ->excludes(flows);
  command->add_flag("--critical-path", o->critical_path, "Say which tasks the iteration waits for")->excludes(flows);
  command->add_flag("--collectives", o->collectives, "Say which algorithm each collective takes, and why")
      ->excludes(flows);
  o->settings.add(*command);
  o->alone.add(*command);
  add_json(*command, o->json);
  routes->needs(command->get_option("--json"));
  command->callback([o, command] {
    if (!o->scales.texts.empty() && o->plan.empty()) throw_input_error("simulate: --scale needs PLAN");
    if (!o->alone.kind.empty() && o->plan.empty() && o->flows.empty()) {
      refuse_others(*command, "--collective",
                    {"--collective", "--bytes", "--profile", "--collective-algorithm", "--collective-protocol",
                     "--collective-chunk", "--steps"});
      return simulate_alone(o->alone, o->machine, o->settings, o->json);
    }
    if (!o->alone.kind.empty() || !o->alone.bytes.empty())
      throw_input_error("simulate: --collective and --bytes belong together, without PLAN and --flows");
    if (!o->flows.empty()) {
      refuse_others(*command, "--flows", {"--flows", "--routes"});
      return simulate_flows_file(*o);
    }
    if (o->plan.empty())
      throw_input_error("simulate: found neither PLAN nor --flows nor --collective, expected one of them");
    if (command->count("--seed") && !command->count("--jitter"))
      throw_input_error("simulate: --seed needs --jitter, of which it is");
    simulate_plan(*o);
  });
}

}  // namespace unity::cli
