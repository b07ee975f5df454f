// unity sweep: a grid of searches, scripted in YAML; one row for each point, written as it is done.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/plan_summary.h"
#include "cli/progress.h"
#include "cli/search_options.h"
#include "core/base/nesting.h"
#include "core/base/text.h"
#include "core/report/experiment.h"
#include "core/report/results.h"

namespace unity::cli {
namespace {

using nlohmann::ordered_json;
using report::GridPoint;

struct Options {
  std::string experiment, folder;
  std::vector<std::string> only;
  int jobs = 0;
  bool resume = false;
};

// The values of a point in columns of its row, as far as the experiment says them.
ordered_json columns_of(const GridPoint& p) {
  ordered_json row = {{"point", p.key()},         {"model", p.model},     {"topology", p.topology},
                      {"nodes", p.nodes},         {"devices", p.devices}, {"strategy", p.variant.strategy},
                      {"variant", p.variant.name}};
  for (const auto& [column, value] : {std::pair{"batch_per_gpu", p.batch_per_gpu},
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

ordered_json run_point(const GridPoint& p, const Options& o, const std::string& plan_path) {
  ordered_json row = columns_of(p);
  std::optional<Plan> found;
  try {
    Topology topology = load_topology(p.topology, {p.nodes, p.devices});
    row["nodes"] = topology.whole_nodes ? topology.whole_nodes : topology.nodes;
    row["devices"] = topology.device_count();
    p.variant.settings.add_mappings(topology);
    SimulatedCostModel cost(std::move(topology));
    ModelOptions model{{p.model, p.batch_per_gpu, 0, p.seq_len, p.layers, {}}};
    SearchSettings settings = p.variant.settings;
    settings.search.jobs = o.jobs;
    if (p.budget) settings.search.budget = p.budget;
    auto plan = search_plan(model, p.topology, cost, settings.options(p.variant.strategy, p.model));
    if (!plan.ok()) throw InputError(plan.error().message);
    row.update(plan_summary(*plan, plan_path));
    const auto& levels = plan->search.log.seconds.level;
    row["search_processor_seconds"] = std::accumulate(levels.begin(), levels.end(), 0.0);
    found = std::move(*plan);
  } catch (const std::exception& e) {  // whatever went wrong, the points after this one still count
    row["error"] = e.what();
  }
  if (found) save_plan(*found, plan_path);  // a disk that is full is no property of the point: it stays open
  return row;
}

void sweep(const Options& o) {
  namespace fs = std::filesystem;
  std::vector<GridPoint> grid = chosen(report::load_experiment(o.experiment).grid, o.only);
  std::error_code error;
  fs::create_directories(fs::path(o.folder) / "plans", error);
  if (error) throw_input_error("{}: cannot be written: {}", o.folder, error.message());
  std::string json_path = (fs::path(o.folder) / "results.json").string(),
              csv_path = (fs::path(o.folder) / "results.csv").string();
  require_writable(json_path);
  ordered_json rows = ordered_json::array();
  if (fs::exists(json_path)) {
    if (!o.resume)
      throw_input_error("{}: there are results already; --resume goes on with them, or name another folder with -o",
                        json_path);
    const std::string text = read_file(json_path);
    refuse_deep_json(text, json_path);
    try {
      rows = ordered_json::parse(text).at("rows");
    } catch (const nlohmann::json::exception&) {
      throw_input_error("{}: is not the result of a sweep", json_path);
    }
  }
  write_file_atomically(fs::path(o.folder) / "experiment.yaml", read_file(o.experiment));
  auto write_csv = [&](const std::string& text) {
    write_file_atomically(csv_path,
                          report::to_csv(report::result_columns(), report::results_from_json(text, json_path).rows));
  };
  if (!rows.empty()) write_csv(read_file(json_path));  // a sweep that was killed may have written the other file alone
  Progress bar("sweep");
  std::int64_t done = 0, skipped = 0, failed = 0;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const GridPoint& p = grid[i];
    bool there = std::any_of(rows.begin(), rows.end(),
                             [&](const ordered_json& row) { return row.value("point", "") == p.key(); });
    if (there) {
      ++skipped;
      continue;
    }
    bar.update(static_cast<std::int64_t>(i), static_cast<std::int64_t>(grid.size()), p.key());
    rows.push_back(
        run_point(p, o, (fs::path(o.folder) / "plans" / fmt::format("{:016x}.json", hash_text(p.key()))).string()));
    failed += rows.back().contains("error");
    ++done;
    ordered_json root = {{"format", "unity-results"}, {"version", 1}, {"experiment", o.experiment}, {"rows", rows}};
    std::string text = root.dump(1) + "\n";
    write_file_atomically(json_path, text);
    write_csv(text);
  }
  bar.clear();
  fmt::print("{} points: {} done, {} of them without a plan, {} were there already\n{}\n{}\n", grid.size(), done,
             failed, skipped, csv_path, json_path);
}

}  // namespace

void add_sweep(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      add_command(app, "sweep", "Run a grid of searches described in a YAML file",
                  "  unity sweep experiments/first-sweep/experiment.yaml -o out/first-sweep\n"
                  "  unity sweep experiments/first-sweep/experiment.yaml -o out/first-sweep --resume\n"
                  "  unity sweep experiments/figure-14/experiment.yaml -o out/figure-14 --only nodes=1,2");
  command->add_option("EXPERIMENT", o->experiment, "A file of format unity-experiment")->required();
  command->add_option("-o,--output", o->folder, "Folder for results.csv, results.json and plans")->required();
  at_least_one(command->add_option("--jobs", o->jobs, "Threads (default: one for each core)"));
  command->add_option("--only", o->only, "Only points with these values, as in nodes=1,2; may be repeated")
      ->type_name("COLUMN=VALUE,..")
      ->allow_extra_args(false);
  command->add_flag("--resume", o->resume, "Go on with the results in the folder: points that have a row are skipped");
  command->callback([o] { sweep(*o); });
}

}  // namespace unity::cli
