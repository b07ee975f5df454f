// unity profile: measures this machine, for the simulator.
#include "core/machine/profile.h"

#include <chrono>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/lowered.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "core/base/text.h"
#include "core/plan/task_key.h"
#include "runtime/cpu/threads.h"
#include "runtime/held_types.h"
#include "runtime/profile/measure.h"

namespace unity::cli {
namespace {

struct Options {
  PlanSource source;
  std::vector<std::string> plans;
  std::string output, backend = "cpu", precision = "f32";
  int threads = 0;
  double budget = 0, task_seconds = 0.1;
  bool list_missing = false, again = false, curves = false, json = false;
};

// A task that the profile lacks: where to find one of its kind.
struct Missing {
  std::size_t program = 0;
  TaskId task;
  std::int64_t count = 0;  // tasks of the plans with this key
  double flops = 0, bytes = 0;
};
using MissingTasks = std::map<int, std::map<std::string, Missing>>;  // by threads, by key

std::string today() {
  std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

DeviceProfile existing_or_new(const Options& o) {
  if (!o.output.empty() && std::filesystem::exists(o.output)) {
    DeviceProfile profile = load_profile(o.output);
    for (auto [what, found, asked] :
         {std::tuple<const char*, std::string_view, std::string_view>("backend", profile.backend, o.backend),
          {"precision", to_string(profile.precision), o.precision}})
      if (found != asked)
        throw_input_error("{}: holds a profile of {} {}; expected {}, or another file with -o", o.output, what, found,
                          asked);
    return profile;
  }
  DeviceProfile profile;
  DeviceDescription device = describe_device(o.backend);
  profile.device = device.name;
  profile.date = today();
  profile.backend = o.backend;
  profile.precision = parse_precision(o.precision, "--precision");
  profile.cache = device.cache;
  return profile;
}

void find_missing(const Program& program, std::size_t index, const Topology& topology, int threads,
                  const DeviceProfile& profile, MissingTasks& missing) {
  TaskKeys keys(program);
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const Task& task = program.tasks[t];
    int with = threads > 0 ? threads : topology.threads(task.device);
    const ProfileSection* section = profile.section(with);
    const std::string& key = keys.of(task);
    if (section && section->tasks.contains(key)) continue;
    auto [found, fresh] = missing[with].try_emplace(key);
    if (fresh) found->second = {index, TaskId(static_cast<std::int64_t>(t)), 0, task.flops, task.bytes};
    ++found->second.count;
  }
}

void print_missing(const MissingTasks& missing, bool json) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  Table table({"missing task", "threads", "count"});
  for (const auto& [threads, tasks] : missing)
    for (const auto& [key, task] : tasks) {
      list.push_back({{"task", key}, {"threads", threads}, {"count", task.count}});
      table.add({key, std::to_string(threads), std::to_string(task.count)});
    }
  if (json) return fmt::print("{}\n", nlohmann::ordered_json({{"missing", list}}).dump(2));
  if (list.empty()) return fmt::print("nothing is missing\n");
  table.print();
}

void profile(const Options& o) {
  require_writable(o.output);
  DeviceProfile profile = existing_or_new(o);
  std::vector<Program> programs;
  std::vector<std::vector<DType>> held;  // of each, in bf16
  MissingTasks missing;
  for (const std::string& name : o.plans) {
    Topology topology;
    Plan plan = o.source.of(name).load(topology);
    programs.push_back(lower_plan(plan, topology, true));
    if (profile.precision == Precision::bf16) held.push_back(held_types(programs.back(), profile.precision));
    find_missing(programs.back(), programs.size() - 1, topology, o.threads, profile, missing);
  }
  if (o.list_missing) return print_missing(missing, o.json);
  if (o.output.empty()) throw_input_error("profile: -o is missing, expected a file to write the profile to");

  ProfileOptions options;
  options.executor.backend = o.backend;
  options.executor.precision = profile.precision;
  options.task_seconds = o.task_seconds;
  options.cache = profile.cache;
  Progress bar("profile");
  auto begin = std::chrono::steady_clock::now();
  auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  auto saved = passed();
  profile.date = today();
  std::int64_t measured = 0, left = 0, total = 0;

  std::vector<int> wanted;
  for (const auto& [threads, tasks] : missing) wanted.push_back(threads);
  if (wanted.empty() && o.plans.empty()) wanted = {o.threads > 0 ? o.threads : cpu::fair_share(1)};
  for (int threads : wanted) {
    auto [found, fresh] = profile.sections.try_emplace(threads);
    ProfileSection& section = found->second;
    section.threads = options.executor.threads = threads;
    if (fresh) measure_overheads(section, options);
    if (!o.curves && !(o.plans.empty() && section.curves.empty())) continue;
    measure_curves(section, 4, options, [&](double fraction, const std::string& next) {
      bar.update(static_cast<std::int64_t>(1000 * fraction), 1000, fmt::format("{} threads: {}", threads, next));
    });
    save_profile(profile, o.output);
  }
  for (const auto& [threads, tasks] : missing) total += static_cast<std::int64_t>(tasks.size());
  for (const auto& [threads, tasks] : missing) {
    options.executor.threads = threads;
    for (const auto& [key, task] : tasks) {
      if (o.budget > 0 && passed() > o.budget) {
        ++left;
        continue;
      }
      bar.update(measured, total, key);
      profile.sections[threads].tasks[key] =
          measure_task(programs[task.program], task.task, options, held.empty() ? nullptr : &held[task.program]);
      ++measured;
      if (passed() - saved > 10) save_profile(profile, o.output), saved = passed();
    }
  }
  bar.clear();
  save_profile(profile, o.output);
  if (o.json) {
    nlohmann::ordered_json sections = nlohmann::ordered_json::array();
    for (const auto& [threads, s] : profile.sections)
      sections.push_back({{"threads", threads},
                          {"peak_flops", s.peak},
                          {"memory_bandwidth", s.memory_bandwidth},
                          {"task_overhead_seconds", s.task_overhead},
                          {"handover_seconds", s.handover},
                          {"tasks", s.tasks.size()}});
    fmt::print("{}\n", nlohmann::ordered_json({{"profile", o.output},
                                               {"device", profile.device},
                                               {"measured", measured},
                                               {"left", left},
                                               {"entries", profile.entries()},
                                               {"seconds", passed()},
                                               {"sections", sections}})
                           .dump(2));
    return;
  }
  auto rate = [](double value, const std::string& text) { return value > 0 ? text : "-"; };  // not measured
  Table table({"threads", "peak", "memory", "exponentials", "task overhead", "handover", "tasks"});
  for (const auto& [threads, s] : profile.sections)
    table.add({std::to_string(threads), rate(s.peak, to_string(FlopsPerSecond{s.peak})),
               rate(s.memory_bandwidth, to_string(BytesPerSecond{s.memory_bandwidth})),
               rate(s.elementwise_peak, to_string(FlopsPerSecond{s.elementwise_peak})),
               to_string(from_seconds(s.task_overhead)), to_string(from_seconds(s.handover)),
               std::to_string(s.tasks.size())});
  fmt::print("{}: backend {}, {}\n\n", profile.device, profile.backend, to_string(profile.precision));
  table.print();
  fmt::print("\n{} tasks measured in {:.0f} s{}; profile written to {}\n", measured, passed(),
             left ? fmt::format(", {} left for want of time", left) : std::string(), o.output);
}

}  // namespace

void add_profile(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = add_command(app, "profile", "Measure this machine's device, for the simulator to predict with",
                                  "  unity profile -o laptop.yaml\n"
                                  "  unity profile plan.json mlp-tiny --topology laptop --devices 2 -o laptop.yaml\n"
                                  "  unity profile plan.json --list-missing -o laptop.yaml\n"
                                  "  unity validate plan.json --profile laptop.yaml");
  command->add_option("PLAN|MODEL", o->plans,
                      "Plans, or models, whose tasks are measured; without any: rates and curves only");
  o->source.add_options(*command, true, false);  // --budget is that of the measurement
  command->add_option("-o,--output", o->output, "The profile; what it holds already is kept and not measured again");
  command->add_flag("--list-missing", o->list_missing, "Only list the tasks that the profile lacks");
  command->add_flag("--curves", o->curves, "Measure rates and curves, too, or again");
  command->add_option("--backend", o->backend, "cpu or cuda")->capture_default_str();
  command->add_option("--precision", o->precision, "f32, f64; on cuda also tf32, bf16")->capture_default_str();
  at_least_one(command->add_option("--threads", o->threads,
                                   "Threads of a device (default: as the plan's devices have; else all cores)"));
  command->add_option("--budget", o->budget, "Stop after so many seconds; a later call goes on")
      ->check(CLI::PositiveNumber);
  command->add_option("--task-seconds", o->task_seconds, "Measure a task for so long")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_json(*command, o->json);
  command->callback([o] { profile(*o); });
}

}  // namespace unity::cli
