// unity profile: measures this machine, for the simulator.
#include "core/machine/profile.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/lowered.h"
#include "cli/processes.h"
#include "cli/profile_collectives.h"
#include "cli/profile_spread.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "core/base/text.h"
#include "core/plan/task_key.h"
#include "runtime/cpu/threads.h"
#include "runtime/held_types.h"
#include "runtime/profile/collectives.h"
#include "runtime/profile/measure.h"
#include "simulator/devices/task_times.h"

namespace unity::cli {
namespace {

struct Options {
  PlanSource source;
  std::vector<std::string> plans;
  ProcessOptions processes;
  const CLI::Option* comm = nullptr;
  std::string output, backend = "cpu", precision = "f32", largest = "64 MiB";
  int threads = 0;
  double budget = 0, task_seconds = 0.1;
  bool list_missing = false, curves = false, json = false;

  bool collectives() const { return comm->count() > 0; }
};

// Options that what is asked for makes no use of are refused, not ignored.
void refuse_unused(const CLI::App& command, const Options& o) {
  std::vector<std::string> used = {"--output",    "--list-missing", "--curves",       "--backend",
                                   "--precision", "--comm",         "--comm-timeout", "--threads",
                                   "--budget",    "--task-seconds", "--log-folder",   "--json"};
  if (o.plans.empty() && o.collectives()) used.insert(used.end(), {"--topology", "--nodes", "--devices", "--largest"});
  auto refuse = [](const CLI::Option& option, const char* why) {
    throw_input_error("profile: found {}, {}", option.get_name(), why);
  };
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || option->get_positional()) continue;
    const std::string name = option->get_name();
    const bool known = std::find(used.begin(), used.end(), name) != used.end();
    if (o.plans.empty() && !known)
      refuse(*option, o.collectives() ? "which says nothing without a plan or model"
                                      : "which says nothing without a plan or model, or --comm");
    if (!o.plans.empty() && name == "--largest")
      refuse(*option, "expected no plan or model with it: they say the sizes");
  }
  if (o.list_missing && o.plans.empty() && !o.collectives())
    throw_input_error("profile: --list-missing needs a plan or model, or --comm");
}

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
  const DeviceDescription device = describe_device(o.backend);
  // What is only listed may be missing in the file that searches read.
  const std::string& file = o.output.empty() && o.list_missing ? o.source.machine.profile : o.output;
  if (!file.empty() && std::filesystem::exists(file)) {
    DeviceProfile profile = load_profile(file);
    for (auto [what, found, asked] :
         {std::tuple<const char*, std::string_view, std::string_view>("backend", profile.backend, o.backend),
          {"precision", to_string(profile.precision), o.precision},
          {"device", profile.device, profile.sections.empty() ? profile.device : device.name}})
      if (found != asked)
        throw_input_error("{}: holds a profile of {} {}; expected {}, or another file with -o", file, what, found,
                          asked);
    return profile;
  }
  DeviceProfile profile;
  profile.device = device.name;
  profile.date = today();
  profile.backend = o.backend;
  profile.precision = parse_precision(o.precision, "--precision");
  profile.cache = device.cache;
  return profile;
}

// What the file holds of the collectives must be of the same machine, carried in the same way.
void prepare_collectives(DeviceProfile& profile, const MeasuredCollectives& asked, const std::string& file) {
  if (!profile.collectives) {
    profile.collectives = asked;
    return;
  }
  const MeasuredCollectives& found = *profile.collectives;
  auto words = [](const MeasuredCollectives& m) {
    return fmt::format("comm {} in {} {} on topology '{}' with levels {}", m.comm, m.processes,
                       m.processes == 1 ? "process" : "processes", m.topology, join(m.levels));
  };
  bool processes = found.processes == asked.processes || asked.comm == "nccl";
  if (found.comm != asked.comm || !processes || found.topology != asked.topology || found.levels != asked.levels)
    throw_input_error("{}: holds collectives of {}; expected of {}, or another file with -o",
                      found.place.empty() ? file : found.place, words(found), words(asked));
}

// Communications as tasks: those within one device of the machine, as others are of its links.
void find_missing(const Program& program, std::size_t index, const Topology& topology, int threads,
                  const DeviceProfile& profile, bool communications, MissingTasks& missing) {
  TaskKeys keys(program);
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const Task& task = program.tasks[t];
    if (task.kind == TaskKind::communicate &&
        !(communications && on_one_physical(topology, program.devices_of(TaskId(static_cast<std::int64_t>(t))))))
      continue;
    int with = profile.section_key(threads > 0 ? threads : topology.threads(task.device));
    const ProfileSection* section = profile.section(with);
    const std::string& key = keys.of(task);
    if (section && section->tasks.contains(key)) continue;
    auto [found, fresh] = missing[with].try_emplace(key);
    if (fresh) found->second = {index, TaskId(static_cast<std::int64_t>(t)), 0, task.flops, task.bytes};
    ++found->second.count;
  }
}

void print_missing(const MissingTasks& missing, const std::vector<WantedCollective>& collectives, bool json) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array(), groups = nlohmann::ordered_json::array();
  Table table({"missing task", "threads", "count"}), others({"missing collective", "size", "count"});
  for (const auto& [threads, tasks] : missing)
    for (const auto& [key, task] : tasks) {
      list.push_back({{"task", key}, {"threads", threads}, {"count", task.count}});
      table.add({key, std::to_string(threads), std::to_string(task.count)});
    }
  for (const WantedCollective& w : collectives) {
    auto bytes = static_cast<std::int64_t>(w.bytes);
    groups.push_back({{"collective", w.name}, {"bytes", bytes}, {"count", w.count}});
    others.add({w.name, to_string(Bytes{bytes}), std::to_string(w.count)});
  }
  if (json)
    return fmt::print("{}\n", nlohmann::ordered_json({{"missing", list}, {"missing_collectives", groups}}).dump(2));
  if (list.empty() && groups.empty()) return fmt::print("nothing is missing\n");
  if (!list.empty()) table.print();
  if (!list.empty() && !groups.empty()) fmt::print("\n");
  if (!groups.empty()) others.print();
}

// What was not measured, or is too little to be.
nlohmann::ordered_json or_null(double value) {
  return value > 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}
nlohmann::ordered_json or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}
std::string percent(const std::optional<double>& fraction) {
  return fraction ? fmt::format("{:.0f}%", 100 * *fraction) : "-";
}

class Profiling {
 public:
  Profiling(const Options& o, Processes& processes)
      : o_(o), processes_(processes), first_(processes.rank() == 0), bar_(first_ ? "profile" : "") {}

  void run() {
    check_comm();
    if (first_) {
      require_writable(o_.output);
      profile_ = existing_or_new(o_);
    }
    profile_.precision = parse_precision(o_.precision, "--precision");
    load_plans();
    if (o_.collectives()) find_collectives();
    if (first_ && o_.list_missing) return print_missing(missing_, lacking(), o_.json);
    if (o_.list_missing) return;
    if (o_.output.empty()) throw_input_error("profile: -o is missing, expected a file to write the profile to");
    options_.executor.backend = o_.backend;
    options_.executor.precision = profile_.precision;
    options_.task_seconds = o_.task_seconds;
    options_.cache = {agreed(processes_, profile_.cache.count)};
    profile_.date = today();
    if (o_.collectives()) measure_collectives();
    if (!first_) return;
    measure_rates();
    measure_tasks();
    bar_.clear();
    save();
    if (o_.json)
      print_json();
    else
      print();
    warn_of_spread(profile_, o_.output);
  }

 private:
  void check_comm() const {
    o_.processes.require_backend(o_.backend);
    if (o_.backend != "cpu" && o_.threads > 0)
      throw_input_error("--threads: found {} with --backend {}, expected none: they are of CPU devices", o_.threads,
                        o_.backend);
    if (o_.processes.comm == "mpi" && processes_.size() == 1)
      throw_input_error("--comm mpi: found 1 process, expected several: start it with mpirun or srun");
  }

  void load_plans() {
    std::size_t count = o_.plans.size();
    programs_.reserve(count), held_.reserve(count);  // they are pointed to
    bool communications = !o_.collectives() && (!profile_.collectives || profile_.collectives->comm != "mpi");
    for (const std::string& name : o_.plans) {
      Topology topology;
      Plan plan = o_.source.of(name).load_to_train(topology, profile_.precision);
      programs_.push_back(lower_plan(plan, topology, true, profile_.precision));
      if (profile_.precision == Precision::bf16) held_.push_back(held_types(programs_.back(), profile_.precision));
      if (first_)
        find_missing(programs_.back(), programs_.size() - 1, topology, o_.threads, profile_, communications, missing_);
      machines_.push_back(std::move(topology));
    }
  }

  const std::vector<DType>* held(std::size_t program) const { return held_.empty() ? nullptr : &held_[program]; }

  void find_collectives() {
    if (o_.plans.empty()) {
      MachineOptions where = o_.source.machine;
      if (where.topology.empty()) where.topology = "laptop";
      machines_.push_back(where.load());
    }
    const Topology& machine = machines_.front();
    warn_of_places(processes_, machine);
    asked_ = collectives_of(machine, carrier(o_.backend, processes_.size()), processes_.size());
    for (std::size_t i = 1; i < machines_.size(); ++i)
      if (!asked_.of(machines_[i]))
        throw_input_error(
            "{}: is for topology '{}', {} for '{}'; expected plans for one, as a profile holds the "
            "collectives of one",
            o_.plans[i], machines_[i].name, o_.plans[0], machine.name);
    if (first_) prepare_collectives(profile_, asked_, o_.output);
    if (o_.plans.empty()) wanted_.add_all(machine, largest());
    for (std::size_t i = 0; i < programs_.size(); ++i) wanted_.add(programs_[i], machines_[i], held(i));
  }

  Bytes largest() const {
    Result<Bytes> bytes = parse_bytes(o_.largest);
    if (!bytes.ok()) throw_input_error("--largest: {}", bytes.error().message);
    if (bytes->count < kSmallestCollective)
      throw_input_error("--largest: found '{}', expected at least {}", o_.largest,
                        to_string(Bytes{kSmallestCollective}));
    return *bytes;
  }

  bool lacks(const WantedCollective& w) const { return !profile_.collectives->has(w.name, w.bytes); }

  std::vector<WantedCollective> lacking() const {
    std::vector<WantedCollective> list;
    std::copy_if(wanted_.list().begin(), wanted_.list().end(), std::back_inserter(list),
                 [&](const WantedCollective& w) { return lacks(w); });
    return list;
  }

  bool late() const { return o_.budget > 0 && passed() > o_.budget; }

  // All processes go through the same list; rank 0 says what of it is measured.
  void measure_collectives() {
    ProfileOptions options = options_;
    options.executor.processes = &processes_;
    options.executor.threads = o_.threads;
    std::int64_t done = 0;
    processes_.require_equal("the collectives to measure", wanted_.text());
    for (const WantedCollective& w : wanted_.list()) {
      bar_.update(done++, static_cast<std::int64_t>(wanted_.list().size()),
                  fmt::format("{}, {}", w.name, to_string(Bytes{static_cast<std::int64_t>(w.bytes)})));
      bool needed = first_ && lacks(w), wait = needed && late();
      left_ += wait;
      if (!agreed(processes_, needed && !wait)) continue;
      ProfileEntry entry = measure_collective(*w.program, w.task, options, w.held);
      ++measured_collectives_;
      if (!first_) continue;
      profile_.collectives->put(w.name, point_of(w.bytes, entry));
      save_now_and_then();
    }
    if (first_) save();
  }

  // Rates and curves: where nothing else was asked for, and where they were.
  void measure_rates() {
    std::vector<int> wanted;
    for (const auto& [threads, tasks] : missing_) wanted.push_back(threads);
    bool all = o_.plans.empty() && !o_.collectives();
    if (wanted.empty() && (all || o_.curves))
      wanted = {profile_.section_key(o_.threads > 0 ? o_.threads : cpu::fair_share(1))};
    for (int threads : wanted) {
      auto [found, fresh] = profile_.sections.try_emplace(threads);
      ProfileSection& section = found->second;
      section.threads = options_.executor.threads = threads;
      if (fresh) measure_overheads(section, options_);
      const bool curves_too = o_.curves || all;
      // What the tasks that are measured here are stored without, as the simulator adds it.
      if (auto tasks = missing_.find(threads); curves_too || (tasks != missing_.end() && !tasks->second.empty()))
        section.step_overhead = step_overhead(options_);
      options_.task_overhead = section.task_overhead, options_.step_overhead = section.step_overhead;
      if (!curves_too) continue;
      CurveOptions curves{.again = o_.curves};
      if (o_.budget > 0) curves.late = [&] { return late(); };
      curves.progress = [&](double fraction, const std::string& next) {
        bar_.update(static_cast<std::int64_t>(1000 * fraction), 1000, fmt::format("{} threads: {}", threads, next));
        save_now_and_then();
      };
      left_ += measure_curves(section, options_, curves);
      save();
    }
  }

  void measure_tasks() {
    std::int64_t total = 0;
    for (const auto& [threads, tasks] : missing_) total += static_cast<std::int64_t>(tasks.size());
    for (const auto& [threads, tasks] : missing_) {
      options_.executor.threads = threads;
      options_.task_overhead = profile_.sections[threads].task_overhead;
      options_.step_overhead = profile_.sections[threads].step_overhead;
      // Plan by plan: where the time does not suffice, the first ones are complete.
      std::vector<std::pair<std::string, Missing>> in_order(tasks.begin(), tasks.end());
      std::stable_sort(in_order.begin(), in_order.end(),
                       [](const auto& a, const auto& b) { return a.second.program < b.second.program; });
      for (const auto& [key, task] : in_order) {
        if (late()) {
          ++left_;
          continue;
        }
        bar_.update(measured_, total, key);
        try {
          profile_.sections[threads].tasks[key] =
              measure_task(programs_[task.program], task.task, options_, held(task.program));
          ++measured_;
        } catch (const InputError& error) {  // as what one device of the plan's machine has memory for, but not this
          ++failed_;
          bar_.clear();
          fmt::print(stderr, "unity: warning: {} is not measured: {}\n", key, error.what());
        }
        save_now_and_then();
      }
    }
  }

  double passed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
  void save() {
    save_profile(profile_, o_.output);
    saved_ = passed();
  }
  void save_now_and_then() {
    if (passed() - saved_ > 10) save();
  }

  void print_json() {
    nlohmann::ordered_json sections = nlohmann::ordered_json::array(), collectives = nlohmann::ordered_json::array();
    for (const auto& [threads, s] : profile_.sections) {
      Spreads spreads;
      spreads.add(s);
      sections.push_back(
          {{"threads", threads},
           {"peak_flops", or_null(s.peak)},
           {"memory_bandwidth", or_null(s.memory_bandwidth)},
           {"task_overhead_seconds", s.task_overhead != 0 ? nlohmann::ordered_json(s.task_overhead) : nullptr},
           {"handover_seconds", or_null(s.handover)},
           {"step_overhead_seconds", or_null(s.step_overhead)},
           {"tasks", s.tasks.size()},
           {"median_spread", or_null(spreads.median())},
           {"worst_spread", or_null(spreads.worst())}});
    }
    if (profile_.collectives) collectives = measured_json(wanted_, *profile_.collectives);
    fmt::print("{}\n", nlohmann::ordered_json({{"profile", o_.output},
                                               {"device", profile_.device},
                                               {"measured", measured_},
                                               {"measured_collectives", measured_collectives_},
                                               {"left", left_},
                                               {"failed", failed_},
                                               {"entries", profile_.entries()},
                                               {"seconds", passed()},
                                               {"sections", sections},
                                               {"collectives", collectives}})
                           .dump(2));
  }

  void print() {
    auto rate = [](double value, const std::string& text) { return value > 0 ? text : "-"; };  // not measured
    fmt::print("{}: backend {}, {}\n\n", profile_.device, profile_.backend, to_string(profile_.precision));
    Table table({"threads", "peak", "memory", "exponentials", "task overhead", "handover", "tasks", "median spread",
                 "worst spread"});
    for (const auto& [threads, s] : profile_.sections) {
      Spreads spreads;
      spreads.add(s);
      table.add({std::to_string(threads), rate(s.peak, to_string(FlopsPerSecond{s.peak})),
                 rate(s.memory_bandwidth, to_string(BytesPerSecond{s.memory_bandwidth})),
                 rate(s.elementwise_peak, to_string(FlopsPerSecond{s.elementwise_peak})),
                 s.task_overhead < 0 ? fmt::format("-{}", to_string(from_seconds(-s.task_overhead)))
                                     : rate(s.task_overhead, to_string(from_seconds(s.task_overhead))),
                 rate(s.handover, to_string(from_seconds(s.handover))), std::to_string(s.tasks.size()),
                 percent(spreads.median()), percent(spreads.worst())});
    }
    if (!profile_.sections.empty()) {
      table.print();
      fmt::print("\n");
    }
    if (profile_.collectives) print_measured(wanted_, *profile_.collectives);
    fmt::print("{} tasks{} measured in {:.0f} s{}{}; profile written to {}\n", measured_,
               o_.collectives() ? fmt::format(" and {} collectives", measured_collectives_) : "", passed(),
               left_ ? fmt::format(", {} left for want of time", left_) : std::string(),
               failed_ ? fmt::format(", {} could not be measured", failed_) : std::string(), o_.output);
  }

  const Options& o_;
  Processes& processes_;
  bool first_;  // rank 0: has the profile, and measures what one device does
  Progress bar_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double saved_ = 0;
  DeviceProfile profile_;
  ProfileOptions options_;
  std::vector<Program> programs_;
  std::vector<std::vector<DType>> held_;  // of each, in bf16
  std::vector<Topology> machines_;        // of each; without plans one
  MissingTasks missing_;
  MeasuredCollectives asked_;
  WantedCollectives wanted_;
  std::int64_t measured_ = 0, measured_collectives_ = 0, left_ = 0, failed_ = 0;
};

}  // namespace

void add_profile(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = add_command(app, "profile", "Measure this machine's device, for the simulator to predict with",
                                  "  unity profile -o laptop.yaml\n"
                                  "  unity profile plan.json mlp-tiny --topology laptop --devices 2 -o laptop.yaml\n"
                                  "  unity profile plan.json --list-missing -o laptop.yaml\n"
                                  "  unity profile --comm threads --topology laptop -o laptop.yaml\n"
                                  "  mpirun -np 4 unity profile plan.json --comm mpi -o four.yaml\n"
                                  "  unity validate plan.json --profile laptop.yaml");
  command->add_option(
      "PLAN|MODEL", o->plans,
      "Plans, or models, whose tasks, and with --comm collectives, are measured; without any: rates and "
      "curves, or with --comm all collectives of the machine");
  o->source.add_options(*command, true, false);  // --budget is that of the measurement
  output_file(command->add_option("-o,--output", o->output,
                                  "The profile; what it holds already is kept and not measured again"));
  command->add_flag("--list-missing", o->list_missing,
                    "Only list the tasks, and with --comm the collectives, that the profile lacks");
  command->add_flag("--curves", o->curves, "Measure rates and curves, too, or again");
  command->add_option("--backend", o->backend, "cpu or cuda")->capture_default_str();
  command->add_option("--precision", o->precision, "f32, f64; on cuda also tf32, bf16")->capture_default_str();
  o->processes.add(*command);
  o->comm = command->get_option("--comm");
  command->add_option("--largest", o->largest, "With --comm, without plans: the largest size of collectives")
      ->capture_default_str();
  at_least_one(command->add_option("--threads", o->threads,
                                   "Threads of a device (default: as the plan's devices have; else all cores)"));
  above_zero(command->add_option("--budget", o->budget, "Stop after so many seconds; a later call goes on"));
  above_zero(command->add_option("--task-seconds", o->task_seconds, "Measure a task for so long"))
      ->capture_default_str();
  add_json(*command, o->json);
  command->callback([o, command] {
    refuse_unused(*command, *o);
    with_processes(o->processes, [&](Processes& processes) { Profiling(*o, processes).run(); });
  });
}

}  // namespace unity::cli
