// unity sweep: a grid of searches, scripted in YAML; one row for each point, written as it is done.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <yaml-cpp/yaml.h>

#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/search_options.h"
#include "core/base/text.h"

namespace unity::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
  std::string experiment, folder;
  int jobs = 0;
  bool resume = false;
};

// What a point of the grid asks for. Its key says so in words, and names its row.
struct Point {
  std::string model, topology, strategy;
  int nodes = 0, devices = 0;
  std::int64_t batch_per_gpu = 0, seq_len = 0, layers = 0;
  int budget = 0;

  std::string key() const {
    std::string text = fmt::format("{}/{}/nodes={}/devices={}/{}", model, topology, nodes, devices, strategy);
    if (batch_per_gpu) text += fmt::format("/batch-per-gpu={}", batch_per_gpu);
    if (seq_len) text += fmt::format("/seq-len={}", seq_len);
    if (layers) text += fmt::format("/layers={}", layers);
    if (budget) text += fmt::format("/budget={}", budget);
    return text;
  }
};

[[noreturn]] void fail_at(const std::string& file, const YAML::Node& node, const std::string& message) {
  throw InputError(fmt::format("{}:{}:{}: {}", file, node.Mark().line + 1, node.Mark().column + 1, message));
}

template <class T>
std::vector<T> list_of(const std::string& file, const YAML::Node& root, const std::string& key,
                       std::vector<T> fallback) {
  YAML::Node node = root[key];
  if (!node) return fallback;
  std::vector<T> values;
  auto add = [&](const YAML::Node& item) {
    try {
      values.push_back(item.as<T>());
    } catch (const YAML::Exception&) {
      fail_at(file, item,
              fmt::format("{}: found '{}', expected {}", key, item.IsScalar() ? item.Scalar() : "a nested value",
                          std::is_same_v<T, std::string> ? "a name" : "an integer"));
    }
    if constexpr (std::is_integral_v<T>)
      if (values.back() < 1) fail_at(file, item, fmt::format("{}: found {}, expected at least 1", key, values.back()));
  };
  if (node.IsSequence())
    for (const YAML::Node& item : node) add(item);
  else
    add(node);
  if (values.empty()) fail_at(file, node, fmt::format("{}: the list is empty", key));
  return values;
}

const std::vector<std::string> kKeys = {"format",  "version",    "name",          "models",  "topologies", "nodes",
                                        "devices", "strategies", "batch-per-gpu", "seq-len", "layers",     "budget"};

std::vector<Point> load_grid(const std::string& file) {
  YAML::Node root;
  try {
    root = YAML::Load(read_file(file));
  } catch (const YAML::ParserException& e) {
    throw_input_error("{}:{}:{}: malformed YAML: {}", file, e.mark.line + 1, e.mark.column + 1, e.msg);
  }
  if (!root.IsMap())
    throw_input_error("{}:1:1: found no mapping, expected an experiment (format: unity-experiment)", file);
  for (const auto& entry : root) {
    if (!entry.first.IsScalar()) fail_at(file, entry.first, "found a nested key, expected a name");
    std::string key = entry.first.as<std::string>();
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
      fail_at(file, entry.first, fmt::format("unknown key '{}'{}", key, suggestion(key, kKeys)));
  }
  for (const char* key : {"format", "version", "models", "topologies"})
    if (!root[key]) fail_at(file, root, fmt::format("key '{}' is missing", key));
  if (std::string format = root["format"].as<std::string>(""); format != "unity-experiment")
    fail_at(file, root["format"], fmt::format("format: found '{}', expected unity-experiment", format));
  if (root["version"].as<int>(0) != 1)
    fail_at(file, root["version"], fmt::format("version: found '{}', expected 1", root["version"].as<std::string>("")));
  auto checked = [&](const char* key, std::vector<std::string> values, const std::vector<std::string>& known) {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!values[i].ends_with(".yaml") && std::find(known.begin(), known.end(), values[i]) == known.end())
        fail_at(file, root[key].IsSequence() ? root[key][i] : root[key],
                fmt::format("{}: '{}' is not known{}", key, values[i], suggestion(values[i], known)));
    return values;
  };
  std::vector<Point> grid;
  for (const std::string& model : checked("models", list_of<std::string>(file, root, "models", {}), model_names()))
    for (const std::string& topology :
         checked("topologies", list_of<std::string>(file, root, "topologies", {}), topology_names()))
      for (int nodes : list_of<int>(file, root, "nodes", {0}))
        for (int devices : list_of<int>(file, root, "devices", {0}))
          for (std::int64_t batch : list_of<std::int64_t>(file, root, "batch-per-gpu", {0}))
            for (std::int64_t seq : list_of<std::int64_t>(file, root, "seq-len", {0}))
              for (std::int64_t layers : list_of<std::int64_t>(file, root, "layers", {0}))
                for (int budget : list_of<int>(file, root, "budget", {0}))
                  for (const std::string& strategy : checked(
                           "strategies", list_of<std::string>(file, root, "strategies", {"unity"}), strategy_names()))
                    grid.push_back({model, topology, strategy, nodes, devices, batch, seq, layers, budget});
  return grid;
}

ordered_json run_point(const Point& p, const Options& o, const std::string& plan_path) {
  ordered_json row = {{"point", p.key()}, {"model", p.model},     {"topology", p.topology},
                      {"nodes", p.nodes}, {"devices", p.devices}, {"strategy", p.strategy}};
  try {
    SimulatedCostModel cost(load_topology(p.topology, {p.nodes, p.devices}));
    ModelOptions model{p.model, p.batch_per_gpu, 0, p.seq_len, p.layers, {}};
    SearchSettings settings;
    settings.search.jobs = o.jobs;
    if (p.budget) settings.search.budget = p.budget;
    auto plan = search_plan(model, p.topology, cost, settings.options(p.strategy, p.model));
    if (!plan.ok()) throw InputError(plan.error().message);
    save_plan(*plan, plan_path);
    row.update(plan_summary(*plan, plan_path));
  } catch (const std::exception& e) {  // whatever went wrong, the points after this one still count
    row["error"] = e.what();
  }
  return row;
}

std::string to_csv(const ordered_json& rows) {
  const std::vector<std::string> columns = {"point",
                                            "model",
                                            "topology",
                                            "nodes",
                                            "devices",
                                            "strategy",
                                            "global_batch",
                                            "iteration_seconds",
                                            "samples_per_second",
                                            "communication_bytes",
                                            "peak_memory_bytes",
                                            "search_seconds",
                                            "candidates",
                                            "stopped_because",
                                            "lower_bound_seconds",
                                            "gap",
                                            "plan",
                                            "error"};
  std::string text = join(columns, ",") + "\n";
  for (const ordered_json& row : rows) {
    std::vector<std::string> fields;
    for (const std::string& column : columns) {
      std::string field;
      if (auto it = row.find(column); it != row.end() && !it->is_null())
        field = it->is_string() ? it->get<std::string>() : it->dump();
      if (field.find_first_of(",\"\n") != std::string::npos) {
        std::string quoted = "\"";
        for (char c : field) quoted += c == '"' ? "\"\"" : std::string(1, c);
        field = quoted + "\"";
      }
      fields.push_back(field);
    }
    text += join(fields, ",") + "\n";
  }
  return text;
}

void sweep(const Options& o) {
  namespace fs = std::filesystem;
  std::vector<Point> grid = load_grid(o.experiment);
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
    try {
      rows = ordered_json::parse(read_file(json_path)).at("rows");
    } catch (const nlohmann::json::exception&) {
      throw_input_error("{}: is not the result of a sweep", json_path);
    }
  }
  Progress bar("sweep");
  std::int64_t done = 0, skipped = 0, failed = 0;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const Point& p = grid[i];
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
    write_file_atomically(json_path, root.dump(1) + "\n");
    write_file_atomically(csv_path, to_csv(rows));
  }
  bar.clear();
  fmt::print("{} points: {} done, {} of them without a plan, {} were there already\n{}\n{}\n", grid.size(), done,
             failed, skipped, csv_path, json_path);
}

}  // namespace

void add_sweep(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = add_command(app, "sweep", "Run a grid of searches described in a YAML file",
                                  "  unity sweep experiments/first-sweep/experiment.yaml -o out/first-sweep\n"
                                  "  unity sweep experiments/first-sweep/experiment.yaml -o out/first-sweep --resume");
  command->add_option("EXPERIMENT", o->experiment, "A file of format unity-experiment")->required();
  command->add_option("-o,--output", o->folder, "Folder for results.csv, results.json and plans")->required();
  at_least_one(command->add_option("--jobs", o->jobs, "Threads (default: one for each core)"));
  command->add_flag("--resume", o->resume, "Go on with the results in the folder: points that have a row are skipped");
  command->callback([o] { sweep(*o); });
}

}  // namespace unity::cli
