// unity validate: Programs, predicted by the simulator and measured by the runtime.
#include "runtime/validate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/lowered.h"
#include "cli/processes.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "core/base/text.h"
#include "core/machine/profile.h"
#include "core/trace/compare.h"
#include "core/trace/perfetto.h"
#include "core/trace/trace_json.h"
#include "simulator/simulate.h"

namespace unity::cli {
namespace {

struct Options {
  PlanSource source;
  std::vector<std::string> plans;
  ProcessOptions processes;
  std::string backend = "cpu", precision = "f32", trace, perfetto;
  int steps = 21, random = 0, rounds = 1, tasks = 0;
  double quantile = 0.5;
  bool json = false;
};

// A plan with its prediction, and its measurement once there is one.
struct Validated {
  std::string name;
  Topology topology;
  Plan plan;
  Program program;
  SimulationResult predicted;
  std::vector<Measurement> measured;  // fastest first
  std::vector<Picoseconds> rounds;    // iterations, in the order of rounds
  Comparison comparison;

  double ratio() const { return comparison.predicted.seconds() / comparison.measured.seconds(); }
};

// What was measured in one precision says nothing about a run in another, nor do collectives that something else
// carried.
void require_profiles_of(const Topology& topology, const std::string& backend, const std::string& precision,
                         int processes) {
  for (const DeviceSpec& spec : topology.specs)
    if (spec.profile && (spec.profile->backend != backend || to_string(spec.profile->precision) != precision))
      throw_input_error("validate: the profile of {} is of backend {} in {}, expected of {} in {}", spec.name,
                        spec.profile->backend, to_string(spec.profile->precision), backend, precision);
  for (const DeviceSpec& spec : topology.specs) {
    if (!spec.profile || !spec.profile->collectives) continue;
    const MeasuredCollectives& measured = *spec.profile->collectives;
    std::string comm = carrier(backend, processes);
    if (measured.of(topology) && (measured.comm != comm || (comm == "mpi" && measured.processes != processes)))
      throw_input_error("{}: the collectives were measured with comm {} in {} {}, expected {} in {}", measured.place,
                        measured.comm, measured.processes, measured.processes == 1 ? "process" : "processes", comm,
                        processes);
  }
}

// Programs run anywhere, but what is predicted for other devices says nothing of these.
void warn_of_kinds(const Topology& topology, const std::string& backend, std::set<std::string>& told) {
  const std::string_view kind = backend == "cuda" ? "gpu" : "cpu";
  for (const DeviceSpec& spec : topology.specs)
    if (spec.kind != kind && told.insert(spec.name).second)
      fmt::print(stderr, "unity: warning: predicted for {}, of kind {}, and measured on backend {}\n", spec.name,
                 spec.kind, backend);
}

std::unique_ptr<Validated> predict(std::string name, Plan plan, Topology topology, Precision precision) {
  auto v = std::make_unique<Validated>();
  v->name = std::move(name);
  v->plan = std::move(plan);
  v->topology = std::move(topology);
  v->program = lower_plan(v->plan, v->topology, true, precision);
  v->predicted = simulate(v->program, v->topology, {});
  return v;
}

// Spans hold what tracing adds to a task, where a profile of the device says how much that is (task_overhead below
// nothing): the time of the task is less.
Trace without_tracing(Trace trace, const Program& program, const Topology& topology) {
  for (Span& s : trace.spans) {
    const ProfileSection* section = section_of(topology, s.device);
    if (!section || section->task_overhead >= 0) continue;
    if (program.tasks[s.task.index()].kind == TaskKind::communicate) continue;
    s.end = std::max(s.start, s.end - from_seconds(-section->task_overhead));
  }
  return trace;
}

// Rounds over all plans, so that what else the machine does at one time does not fall on one plan alone; of a plan's
// rounds the fastest counts.
void measure_all(std::vector<std::unique_ptr<Validated>>& all, const Options& o, Processes& processes) {
  Progress bar(processes.rank() == 0 ? "validate" : "");
  MeasureOptions options;
  options.executor.backend = o.backend;
  options.executor.precision = parse_precision(o.precision, "--precision");
  options.executor.processes = &processes;
  options.steps = o.steps;
  options.quantile = o.quantile;
  for (int round = 0; round < o.rounds; ++round)
    for (std::size_t i = 0; i < all.size(); ++i) {
      Validated& v = *all[i];
      bar.update(static_cast<std::int64_t>(static_cast<std::size_t>(round) * all.size() + i),
                 static_cast<std::int64_t>(static_cast<std::size_t>(o.rounds) * all.size()), v.name);
      options.index_bounds = input_bounds(v.plan.model);
      v.measured.push_back(measure(v.program, options));
      v.rounds.push_back(v.measured.back().iteration);
    }
  for (auto& v : all) {
    std::stable_sort(v->measured.begin(), v->measured.end(),
                     [](const Measurement& a, const Measurement& b) { return a.iteration < b.iteration; });
    std::vector<std::string> names = task_names(v->program), groups = task_groups(v->program);
    const Trace measured = without_tracing(v->measured.front().trace, v->program, v->topology);
    v->comparison = unity::compare(v->predicted.trace, measured, names, groups).value();
    v->comparison.measured = v->measured.front().iteration;
  }
}

nlohmann::ordered_json to_json(const TaskComparison& t) {
  return {{"task", t.task.value},
          {"name", t.name},
          {"group", t.group},
          {"predicted_seconds", t.predicted.seconds()},
          {"measured_seconds", t.measured.seconds()},
          {"ratio", t.measured.count > 0 ? nlohmann::ordered_json(t.predicted.seconds() / t.measured.seconds())
                                         : nlohmann::ordered_json()}};
}

nlohmann::ordered_json to_json(const Validated& v, bool tasks) {
  const Comparison& c = v.comparison;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const GroupComparison& g : c.groups)
    list.push_back({{"group", g.group},
                    {"tasks", g.tasks},
                    {"predicted_seconds", g.predicted.seconds()},
                    {"measured_seconds", g.measured.seconds()}});
  std::vector<double> rounds;
  for (Picoseconds round : v.rounds) rounds.push_back(round.seconds());
  nlohmann::ordered_json out = {{"model", v.plan.model.name},
                                {"topology", v.plan.topology},
                                {"devices", v.plan.devices},
                                {"predicted_seconds", c.predicted.seconds()},
                                {"measured_seconds", c.measured.seconds()},
                                {"measured_seconds_of_rounds", rounds},
                                {"task_mape", c.mape},
                                {"task_rank_correlation", c.spearman},
                                {"profiled_tasks", v.predicted.profiled_tasks},
                                {"estimated_tasks", v.predicted.estimated_tasks},
                                {"groups", list}};
  if (!tasks) return out;
  nlohmann::ordered_json each = nlohmann::ordered_json::array();
  for (const TaskComparison& t : c.tasks) each.push_back(to_json(t));
  out["tasks"] = std::move(each);
  return out;
}

std::string ratio(Picoseconds p, Picoseconds m) {
  return m.count > 0 ? fmt::format("{:.2f}", static_cast<double>(p.count) / static_cast<double>(m.count)) : "-";
}

// Those of all plans whose prediction is off by most seconds, most first; of equal ones the earlier.
void print_tasks(const std::vector<std::unique_ptr<Validated>>& all, std::size_t count) {
  struct Row {
    const Validated* plan;
    const TaskComparison* task;
    std::int64_t off;
  };
  std::vector<Row> rows;
  for (const auto& v : all)
    for (const TaskComparison& t : v->comparison.tasks)
      rows.push_back({v.get(), &t, std::abs(t.predicted.count - t.measured.count)});
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.off > b.off; });
  std::size_t of = rows.size();
  rows.resize(std::min(of, count));
  fmt::print("\nthe {} of {} tasks that are off by most:\n\n", rows.size(), of);
  std::vector<std::string> head = {"task", "what", "predicted", "measured", "predicted / measured"};
  const bool several = all.size() > 1;
  if (several) head.insert(head.begin(), "plan");
  Table table(head);
  table.left(several ? 2 : 1);
  for (const Row& row : rows) {
    const TaskComparison& t = *row.task;
    std::vector<std::string> cells = {std::to_string(t.task.value), fmt::format("{} ({})", t.name, t.group),
                                      to_string(t.predicted), to_string(t.measured), ratio(t.predicted, t.measured)};
    if (several) cells.insert(cells.begin(), row.plan->name);
    table.add(cells);
  }
  table.print();
}

void print_one(const Validated& v, const Options& o) {
  const Comparison& c = v.comparison;
  Table table({"tasks", "count", "predicted", "measured", "predicted / measured"});
  for (const GroupComparison& g : c.groups)
    table.add({g.group, std::to_string(g.tasks), to_string(g.predicted), to_string(g.measured),
               ratio(g.predicted, g.measured)});
  table.add({"whole iteration", std::to_string(v.program.tasks.size()), to_string(c.predicted), to_string(c.measured),
             ratio(c.predicted, c.measured)});
  fmt::print("{} on {} ({} devices), backend {}: sums over tasks, {} of {} iterations\n\n", v.plan.model.name,
             v.plan.topology, v.plan.devices, o.backend,
             o.quantile == 0.5 ? std::string("median") : fmt::format("quantile {:g}", o.quantile), o.steps);
  table.print();
  fmt::print(
      "\nper task: mean absolute percentage error {:.0f}%, rank correlation {:.2f}; times of {} tasks from a "
      "profile, of {} estimated\n",
      100 * c.mape, c.spearman, v.predicted.profiled_tasks, v.predicted.estimated_tasks);
}

// How well predictions of iterations agree with measurements over a set of plans, and these among themselves.
struct SetFigures {
  double mape = 0, rank_correlation = 0;
  std::optional<double> repeatability;  // rank correlation of the fastest of even rounds with those of odd ones
};

// Of every second round from `first` on.
double fastest_of_rounds(const Validated& v, std::size_t first) {
  Picoseconds fastest = v.rounds[first];
  for (std::size_t r = first; r < v.rounds.size(); r += 2) fastest = std::min(fastest, v.rounds[r]);
  return fastest.seconds();
}

SetFigures figures(const std::vector<std::unique_ptr<Validated>>& all) {
  SetFigures f;
  std::vector<double> predicted, measured;
  for (const auto& v : all) {
    predicted.push_back(v->comparison.predicted.seconds());
    measured.push_back(v->comparison.measured.seconds());
    f.mape += std::abs(v->ratio() - 1) / static_cast<double>(all.size());
  }
  f.rank_correlation = spearman(predicted, measured);
  if (all.front()->rounds.size() < 2) return f;
  std::vector<double> even, odd;
  for (const auto& v : all) even.push_back(fastest_of_rounds(*v, 0)), odd.push_back(fastest_of_rounds(*v, 1));
  f.repeatability = spearman(even, odd);
  return f;
}

// Sums over the plans: which kinds of tasks are predicted badly.
std::vector<GroupComparison> all_groups(const std::vector<std::unique_ptr<Validated>>& all) {
  std::map<std::string, GroupComparison> sums;
  for (const auto& v : all)
    for (const GroupComparison& g : v->comparison.groups) {
      GroupComparison& sum = sums[g.group];
      sum.group = g.group;
      sum.tasks += g.tasks;
      sum.predicted += g.predicted;
      sum.measured += g.measured;
    }
  std::vector<GroupComparison> list;
  for (auto& [name, g] : sums) list.push_back(std::move(g));
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.measured > b.measured; });
  return list;
}

void print_set(const std::vector<std::unique_ptr<Validated>>& all, const Options& o) {
  Table table(
      {"plan", "devices", "predicted", "measured", "predicted / measured", "task error", "task rank", "profiled"});
  for (const auto& v : all) {
    const Comparison& c = v->comparison;
    table.add({v->name, std::to_string(v->plan.devices), to_string(c.predicted), to_string(c.measured),
               ratio(c.predicted, c.measured), fmt::format("{:.0f}%", 100 * c.mape), fmt::format("{:.2f}", c.spearman),
               fmt::format("{} of {}", v->predicted.profiled_tasks, v->program.tasks.size())});
  }
  table.print();
  std::vector<GroupComparison> groups = all_groups(all);
  groups.resize(std::min<std::size_t>(groups.size(), 12));
  fmt::print("\n");
  Table sums({"tasks of all plans", "count", "predicted", "measured", "predicted / measured"});
  for (const GroupComparison& g : groups)
    sums.add({g.group, std::to_string(g.tasks), to_string(g.predicted), to_string(g.measured),
              ratio(g.predicted, g.measured)});
  sums.print();
  SetFigures f = figures(all);
  fmt::print(
      "\n{} plans, backend {}: mean absolute percentage error of the iteration {:.1f}%, rank correlation {:.3f}\n",
      all.size(), o.backend, 100 * f.mape, f.rank_correlation);
  if (f.repeatability)
    fmt::print("one half of the rounds against the other: rank correlation {:.3f}\n", *f.repeatability);
}

void validate(const Options& o, Processes& processes) {
  o.processes.require_backend(o.backend);
  require_writable(o.trace);
  require_writable(o.perfetto);
  const Precision precision = parse_precision(o.precision, "--precision");
  std::vector<std::unique_ptr<Validated>> all;
  std::set<std::string> told;
  for (const std::string& name : o.plans) {
    auto add = [&](const PlanSource& source, const std::string& title) {
      Topology topology;
      Plan plan = source.load_to_train(topology, precision);
      require_profiles_of(topology, o.backend, o.precision, processes.size());
      if (processes.rank() == 0) warn_of_kinds(topology, o.backend, told);
      all.push_back(predict(title, std::move(plan), std::move(topology), precision));
    };
    PlanSource source = o.source.of(name);
    add(source, name);
    if (o.random > 0 && is_plan_path(name)) throw_input_error("{}: is a plan; --random is for models", name);
    source.strategy = "random";
    for (int i = 0; i < o.random; ++i, ++source.settings.search.seed)
      add(source, fmt::format("{} random {}", name, source.settings.search.seed));
  }
  if (all.size() > 1 && !(o.trace.empty() && o.perfetto.empty()))
    throw_input_error("validate: --trace and --perfetto are for one plan, found {}", all.size());
  warn_of_places(processes, all.front()->topology);
  measure_all(all, o, processes);
  if (processes.rank() != 0) return;
  const Validated& one = *all.front();
  if (!o.trace.empty()) save_trace(one.measured.front().trace, o.trace);
  if (!o.perfetto.empty()) {
    std::vector<std::string> devices, names = task_names(one.program), groups = task_groups(one.program);
    for (const Device& d : one.topology.devices) devices.push_back(d.name);
    const Trace* both[] = {&one.predicted.trace, &one.measured.front().trace};
    write_file_atomically(o.perfetto, traces_to_perfetto(both, {names, groups, devices, {}}));
  }
  if (o.json) {
    nlohmann::ordered_json out = to_json(one, o.tasks > 0);
    if (all.size() > 1) {
      SetFigures f = figures(all);
      nlohmann::ordered_json list = nlohmann::ordered_json::array();
      for (const auto& v : all) {
        nlohmann::ordered_json entry = {{"plan", v->name}, {"ratio", v->ratio()}};
        entry.update(to_json(*v, o.tasks > 0));
        list.push_back(std::move(entry));
      }
      out = {{"plans", list}, {"mape", f.mape}, {"rank_correlation", f.rank_correlation}};
      if (f.repeatability) out["repeatability"] = *f.repeatability;
    }
    fmt::print("{}\n", out.dump(2));
    return;
  }
  if (all.size() > 1)
    print_set(all, o);
  else
    print_one(one, o);
  if (o.tasks > 0) print_tasks(all, static_cast<std::size_t>(o.tasks));
  if (!o.perfetto.empty())
    fmt::print("predicted and measured timelines written to {}; open it in ui.perfetto.dev\n", o.perfetto);
}

}  // namespace

void add_validate(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      add_command(app, "validate", "Run and simulate programs, and lay measurement over prediction, task by task",
                  "  unity validate plan.json --perfetto both.json\n"
                  "  unity validate mlp-tiny --topology laptop --devices 2\n"
                  "  unity validate a.json b.json bert-tiny --random 4 --profile laptop.yaml");
  command->add_option("PLAN|MODEL", o->plans, "Plan files, or models; several are judged together")->required();
  o->source.add_options(*command, true);
  command->add_option("--backend", o->backend, "cpu or cuda")->capture_default_str();
  command->add_option("--precision", o->precision, "f32, f64; on cuda also tf32, bf16")->capture_default_str();
  o->processes.add(*command);
  at_least_one(command->add_option("--random", o->random,
                                   "Validate N random plans of each model, too: random rules, shardings and mappings"));
  at_least_one(command->add_option("--rounds", o->rounds,
                                   "Measure the whole set so many times; of each plan's rounds the fastest counts"))
      ->capture_default_str();
  at_least_one(command->add_option("--steps", o->steps, "Measured iterations"))->capture_default_str();
  between(0, 1,
          command->add_option(
              "--quantile", o->quantile,
              "Which of the iterations counts: 0.5 the median; 0 the fastest, for a machine that others use"))
      ->capture_default_str();
  at_least_one(command->add_option(
      "--tasks", o->tasks, "List the N tasks whose predictions are off by most seconds; with --json, all tasks"));
  output_file(command->add_option("--trace", o->trace, "Write the measured trace to a file"));
  output_file(command->add_option("--perfetto", o->perfetto, "Write both timelines for the Perfetto UI"));
  add_json(*command, o->json);
  command->callback([o] { with_processes(o->processes, [&](Processes& processes) { validate(*o, processes); }); });
}

}  // namespace unity::cli
