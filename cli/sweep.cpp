// unity sweep: a grid of searches, scripted in YAML; one row for each point, written as it is done. In one process, or
// in several that share out the points.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cli/build_info.h"
#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/plan_summary.h"
#include "cli/progress.h"
#include "cli/search_options.h"
#include "cli/sweep_processes.h"
#include "core/base/text.h"
#include "core/report/provenance.h"
#include "core/report/sweep_folder.h"

namespace unity::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using report::GridPoint;
using report::Shard;
using report::SweepFolder;
using Rows = std::map<std::string, ordered_json>;

struct Options {
  std::string experiment, folder, shard;
  std::vector<std::string> only;
  int jobs = 0, processes = 0;
  bool resume = false, retry = false, merge = false;
};

// The values of a point in columns of its row, as far as the experiment says them.
ordered_json columns_of(const GridPoint& p) {
  ordered_json row = {{"point", p.key()},         {"model", p.model},     {"topology", p.topology},
                      {"nodes", p.nodes},         {"devices", p.devices}, {"strategy", p.variant.strategy},
                      {"variant", p.variant.name}};
  for (const auto& [column, value] : {std::pair{"batch_per_gpu", p.batch_per_gpu},
                                      {"global_batch", p.global_batch},
                                      {"seq_len", p.seq_len},
                                      {"layers", p.layers},
                                      {"budget", std::int64_t{p.budget}}})
    if (value) row[column] = value;
  return row;
}

// The points that all of COLUMN=VALUE,.. hold for. InputError when there are none.
std::vector<GridPoint> chosen(std::vector<GridPoint> grid, const std::vector<std::string>& only) {
  for (const std::string& text : only) {
    std::size_t equals = text.find('=');
    std::string column = text.substr(0, equals);
    std::vector<std::string> values;
    if (equals != std::string::npos) values = split_list("--only", text.substr(equals + 1));
    auto differs = [&](const GridPoint& p) {
      ordered_json row = columns_of(p);
      if (!row.contains(column) || values.empty())
        throw_input_error("--only: found '{}', expected COLUMN=VALUE,.. with a column of the grid such as nodes", text);
      std::string value = row[column].is_string() ? row[column].get<std::string>() : row[column].dump();
      return std::find(values.begin(), values.end(), value) == values.end();
    };
    std::erase_if(grid, differs);
    if (grid.empty()) throw_input_error("--only: no point of the grid has {}", text);
  }
  return grid;
}

int threads_of(const Options& o) {
  return o.jobs ? o.jobs : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// How the row came about, as far as it is known before anything can fail.
ordered_json provenance_of(const Options& o, const std::string& experiment_text) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return {{"unity_version", build_version()},
          {"unity_commit", build_commit()},
          {"experiment_hash", report::hex(hash_text(experiment_text))},
          {"host", host},
          {"started", report::utc_now()},
          {"threads", threads_of(o)}};
}

ordered_json run_point(const GridPoint& p, const Options& o, const std::string& experiment_text,
                       const SweepFolder& folder) {
  ordered_json row = columns_of(p), provenance = provenance_of(o, experiment_text);
  std::optional<Plan> found;
  try {
    SearchSettings settings = p.variant.settings;
    settings.search.jobs = o.jobs;
    if (p.budget) settings.search.budget = p.budget;
    provenance["settings"] = report::settings_text(settings);
    provenance["seed"] = settings.search.seed;
    // First, as the row of a model that is not there is of this machine, too.
    Topology topology = load_topology(p.topology, {p.nodes, p.devices});
    row["nodes"] = topology.whole_nodes ? topology.whole_nodes : topology.nodes;
    row["devices"] = topology.device_count();
    SearchOptions options = settings.options(p.variant.strategy, p.model);
    provenance["rules_hash"] = report::hex(report::rules_hash(options.rules));
    settings.add_mappings(topology);
    provenance["topology_hash"] = report::hex(report::machine_hash(topology));
    ModelOptions model{{p.model, p.batch_per_gpu, p.global_batch, p.seq_len, p.layers, {}}};
    ModelSpec spec = model.spec(static_cast<int>(topology.device_count()));
    provenance["model_hash"] = report::hex(canonical_hash(build_model(spec)));
    SimulatedCostModel cost(std::move(topology));
    auto plan = search_plan(model, p.topology, cost, options);
    if (!plan.ok()) throw InputError(plan.error().message);
    row.update(plan_summary(*plan, folder.plan_file(p)));
    const auto& levels = plan->search.log.seconds.level;
    row["search_processor_seconds"] = std::accumulate(levels.begin(), levels.end(), 0.0);
    provenance["plan_hash"] = report::hex(report::plan_hash(*plan));
    found = std::move(*plan);
  } catch (const std::exception& e) {  // whatever went wrong, the points after this one still count
    row["error"] = e.what();
  }
  // A disk that is full is no property of the point, which stays open.
  if (found) save_plan(*found, folder.path(folder.plan_file(p)));
  for (const std::string& column : report::provenance_columns())
    if (provenance.contains(column)) row[column] = provenance[column];
  return row;
}

bool has_plan(const ordered_json& row) { return !row.contains("error"); }

// Thrown where points have no plan, so that the exit code says it; their rows are written.
void require_plans(const std::vector<GridPoint>& points, const Rows& rows) {
  auto failed = std::count_if(points.begin(), points.end(), [&](const GridPoint& p) {
    auto row = rows.find(p.key());
    return row != rows.end() && !has_plan(row->second);
  });
  if (failed)
    throw std::runtime_error(fmt::format(
        "sweep: {} of {} points have no plan; the column 'error' of their rows says why", failed, points.size()));
}

std::string open_points(const SweepFolder& folder, const Rows& rows) {
  std::vector<GridPoint> open = folder.open(rows);
  return open.empty() ? "" : fmt::format("{} of {} points are open", open.size(), folder.grid().size());
}

// Rows stay that were made by another version of the experiment, whose figures may be of other settings.
void warn_of_other_versions(const Rows& rows, const Options& o) {
  const std::string now = report::hex(hash_text(read_file(o.experiment)));
  auto others = std::count_if(rows.begin(), rows.end(), [&](const auto& row) {
    return row.second.contains("experiment_hash") && row.second["experiment_hash"] != now;
  });
  if (others > 0)
    fmt::print(stderr,
               "unity: warning: {}: {} row{} made by another version of {}, and stay{}; a new folder (-o) does all "
               "points anew\n",
               o.folder, others, others == 1 ? " was" : "s were", o.experiment, others == 1 ? "s" : "");
}

// Rows stay that are of machines or models whose files have changed since.
void warn_of_other_files(const SweepFolder& folder, const Rows& rows, const Options& o) {
  std::map<std::pair<std::string, std::string>, std::string> now;  // by what a file was read for, and with what
  std::size_t others = 0;
  std::set<std::string> files;
  auto is_file = [](const std::string& name) { return name.ends_with(".yaml") || name.ends_with(".yml"); };
  auto differs = [&](const ordered_json& row, const char* column, const std::string& file, const std::string& with,
                     auto&& hash) {
    if (!row.contains(column) || !is_file(file)) return false;
    auto [known, inserted] = now.try_emplace({file, with});
    if (inserted) known->second = report::hex(hash());
    if (row[column] == known->second) return false;
    files.insert(file);
    return true;
  };
  for (const GridPoint& p : folder.grid()) {
    auto row = rows.find(p.key());
    if (row == rows.end() || !(is_file(p.topology) || is_file(p.model))) continue;
    try {
      SearchSettings settings = p.variant.settings;
      Topology topology = load_topology(p.topology, {p.nodes, p.devices});
      settings.add_mappings(topology);
      const auto devices = static_cast<int>(topology.device_count());
      const ModelOptions model{{p.model, p.batch_per_gpu, p.global_batch, p.seq_len, p.layers, {}}};
      const std::string machine = fmt::format("{} {} {}", p.nodes, p.devices, settings.mappings);
      const bool machine_differs =
          differs(row->second, "topology_hash", p.topology, machine, [&] { return report::machine_hash(topology); });
      const bool model_differs =
          differs(row->second, "model_hash", p.model,
                  fmt::format("{} {} {} {} {}", p.batch_per_gpu, p.global_batch, p.seq_len, p.layers, devices),
                  [&] { return canonical_hash(build_model(model.spec(devices))); });
      others += machine_differs || model_differs;
    } catch (const std::exception&) {  // what can not be read any more is said when the point is run
    }
  }
  if (others > 0)
    fmt::print(stderr,
               "unity: warning: {}: {} row{} made before {} changed, and stay{}; a new folder (-o) does all points "
               "anew\n",
               o.folder, others, others == 1 ? " was" : "s were",
               join(std::vector<std::string>(files.begin(), files.end())), others == 1 ? "s" : "");
}

// Points are done by this process: all of them, or those of a shard.
void run_points(const Options& o, SweepFolder& folder, const Shard& shard, std::vector<GridPoint> points) {
  const std::string experiment_text = read_file(o.experiment);
  const bool parts = shard.count > 1;
  if (parts) {
    std::vector<int> shards = report::shards_of(folder.grid(), shard.count);
    std::map<std::string, int> by_key;
    for (std::size_t i = 0; i < shards.size(); ++i) by_key[folder.grid()[i].key()] = shards[i];
    std::erase_if(points, [&](const GridPoint& p) { return by_key.at(p.key()) != shard.index; });
  }
  if (parts) folder.check_parts(shard.count);
  folder.claim(shard);
  Rows rows = folder.rows();
  if (parts) {
    std::vector<int> shards = report::shards_of(folder.grid(), shard.count);
    Rows own;
    for (std::size_t i = 0; i < shards.size(); ++i)
      if (auto row = rows.extract(folder.grid()[i].key()); row && shards[i] == shard.index) own.insert(std::move(row));
    rows = std::move(own);
  }
  const fs::path copy = folder.path("experiment.yaml");
  std::error_code error;
  if (!fs::exists(copy, error) || read_file(copy) != experiment_text) write_file_atomically(copy, experiment_text);
  // A part, for others to see how many there are; all, as a sweep that was killed may have written one file of two, and
  // rows of parts count.
  if (parts || !rows.empty()) folder.write(shard, rows);
  Progress bar(parts ? fmt::format("sweep {}", to_string(shard)) : "sweep");
  std::size_t done = 0, there = 0, failed = 0;
  for (const GridPoint& p : points) {
    auto row = rows.find(p.key());
    if (row != rows.end() && (has_plan(row->second) || !o.retry)) {
      ++there;
      continue;
    }
    bar.update(static_cast<std::int64_t>(done + there), static_cast<std::int64_t>(points.size()), p.key());
    ordered_json made = run_point(p, o, experiment_text, folder);
    failed += !has_plan(made);
    ++done;
    rows.insert_or_assign(p.key(), std::move(made));
    folder.write(shard, rows);
  }
  bar.clear();
  std::string head = parts ? fmt::format("part {}: ", to_string(shard)) : "";
  fmt::print("{}{} points: {} done, {} of them without a plan, {} were there already\n", head, points.size(), done,
             failed, there);
  Rows all = parts ? folder.rows() : rows;
  std::string open = open_points(folder, all);
  if (parts && !open.empty()) {
    fmt::print("{}\nof all parts, {}: when there are none, they are joined\n", folder.file_of(shard), open);
  } else {
    if (parts) folder.merge();
    fmt::print("{}\n{}\n", folder.path("results.csv"), folder.path("results.json"));
  }
  require_plans(points, rows);
}

// All points, by processes of this command that each do a shard.
void run_in_processes(const Options& o, const SweepFolder& folder, const std::vector<GridPoint>& points) {
  folder.check_parts(o.processes);
  Rows before = folder.rows();
  std::vector<SweepProcess> processes;
  const int jobs = std::max(1, o.jobs ? o.jobs : threads_of(o) / o.processes);
  fs::create_directories(folder.path("parts"));
  for (int i = 1; i <= o.processes; ++i) {
    Shard shard{i, o.processes};
    std::vector<std::string> words = {"sweep",  o.experiment,         "-o",      o.folder, "--shard", to_string(shard),
                                      "--jobs", std::to_string(jobs), "--resume"};
    for (const std::string& only : o.only) words.insert(words.end(), {"--only", only});
    if (o.retry) words.emplace_back("--retry-failed");
    processes.push_back({words, fs::path(folder.file_of(shard)).replace_extension(".log").string()});
  }
  Progress bar("sweep");
  std::vector<std::string> ends = run_processes(processes, [&](std::size_t ended) {
    bar.update(static_cast<std::int64_t>(ended), o.processes, "processes have ended");
  });
  bar.clear();
  folder.merge();
  Rows rows = folder.rows();
  std::size_t there = 0, done = 0, failed = 0;
  std::vector<GridPoint> open;
  for (const GridPoint& p : points) {
    auto row = rows.find(p.key()), old = before.find(p.key());
    if (row == rows.end())
      open.push_back(p);
    else if (old != before.end() && (has_plan(old->second) || !o.retry))
      ++there;
    else
      ++done, failed += !has_plan(row->second);
  }
  fmt::print("{} points: {} done, {} of them without a plan, {} were there already\n{}\n{}\n", points.size(), done,
             failed, there, folder.path("results.csv"), folder.path("results.json"));
  if (!open.empty()) {
    std::string why;
    for (std::size_t i = 0; i < ends.size(); ++i)
      if (!ends[i].empty()) why += fmt::format("; process {} of {}: {}", i + 1, o.processes, ends[i]);
    throw std::runtime_error(
        fmt::format("sweep: {} of {} points are open, which --resume goes on with{}", open.size(), points.size(), why));
  }
  require_plans(points, rows);
}

void sweep(const Options& o) {
  const Shard shard = o.shard.empty() ? Shard{} : report::parse_shard(o.shard, [](const char* v) { return getenv(v); });
  report::Experiment experiment = report::load_experiment(o.experiment, !o.merge);
  chosen(experiment.grid, o.only);  // before the folder is made
  SweepFolder folder(o.folder, o.experiment, std::move(experiment));
  std::vector<GridPoint> points = chosen(folder.grid(), o.only);
  const std::string own = folder.file_of(shard);
  if (shard.count > 1) {
    std::error_code error;
    fs::create_directories(folder.path("parts"), error);
    if (error) throw_input_error("{}: cannot be written: {}", folder.path("parts"), error.message());
  }
  require_writable(own);
  if (o.merge) {
    folder.merge();
    Rows rows = folder.rows();
    fmt::print("{} points\n{}\n{}\n", folder.grid().size(), folder.path("results.csv"), folder.path("results.json"));
    if (std::string open = open_points(folder, rows); !open.empty())
      throw std::runtime_error(fmt::format("sweep: {}; the others are joined", open));
    return require_plans(folder.grid(), rows);
  }
  if (!o.resume && !o.retry)
    for (const std::string& file : {own, folder.path("results.json")})
      if (fs::exists(file) || (shard.count == 1 && folder.has_results()))
        throw_input_error("{}: there are results already; --resume goes on with them, or name another folder with -o",
                          fs::exists(file) ? file : folder.path("parts"));
  if (shard.index <= 1) {
    const Rows rows = folder.rows();
    warn_of_other_versions(rows, o);
    warn_of_other_files(folder, rows, o);
  }
  if (o.processes > 1)
    run_in_processes(o, folder, points);
  else
    run_points(o, folder, shard, std::move(points));
}

}  // namespace

void add_sweep(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      add_command(app, "sweep", "Run a grid of searches described in a YAML file",
                  "  unity sweep experiments/first-sweep/experiment.yaml -o out/first-sweep\n"
                  "  unity sweep experiments/first-sweep/experiment.yaml -o out/first-sweep --resume\n"
                  "  unity sweep experiments/figure-14/experiment.yaml -o out/figure-14 --only nodes=1,2\n"
                  "  unity sweep experiments/figure-14/experiment.yaml -o out/figure-14 --processes 4\n"
                  "  unity sweep experiments/figure-14/experiment.yaml -o out/figure-14 --shard 2/8 --resume\n"
                  "  unity sweep experiments/figure-14/experiment.yaml -o out/figure-14 --merge");
  command->add_option("EXPERIMENT", o->experiment, "A file of format unity-experiment")->required();
  output_file(command->add_option("-o,--output", o->folder, "Folder for results.csv, results.json and plans"))
      ->required();
  at_least_one(
      command->add_option("--jobs", o->jobs, "Threads of each process (default: one for each core, shared out)"));
  command->add_option("--only", o->only, "Only points with these values, as in nodes=1,2; may be repeated")
      ->type_name("COLUMN=VALUE,..")
      ->allow_extra_args(false);
  command->add_flag("--resume", o->resume, "Go on with the results in the folder: points that have a row are skipped");
  command->add_flag("--retry-failed", o->retry, "As --resume, but points without a plan are tried again");
  CLI::Option* shard = command->add_option(
      "--shard", o->shard, "Only the I-th of N parts of the points, into a file of its own; slurm: the task's part");
  shard->type_name("I/N|slurm");
  CLI::Option* processes =
      at_least_one(command->add_option("--processes", o->processes, "Share the points out to so many processes here"));
  CLI::Option* merge =
      command->add_flag("--merge", o->merge, "Run nothing: join the rows of all parts to results.json and results.csv");
  processes->excludes(shard);
  for (const char* running : {"--shard", "--processes", "--jobs", "--only", "--resume", "--retry-failed"})
    merge->excludes(command->get_option(running));
  command->callback([o] { sweep(*o); });
}

}  // namespace unity::cli
