// unity report: what a search did, and the figures of an experiment, as text and drawings.
#include <filesystem>
#include <map>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/experiment.h"
#include "cli/figures.h"
#include "cli/search_log_text.h"
#include "core/base/text.h"

namespace unity::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct Options {
  std::vector<std::string> files;
  std::string folder, experiment;
};

// What is printed and written when all files could be reported.
struct Report {
  std::string text;
  std::map<std::string, std::string> files;

  void add(const fs::path& path, std::string content) {
    if (!files.emplace(path.lexically_normal().string(), std::move(content)).second)
      throw_input_error("{}: two of the files are reported there; report them one by one", path.string());
  }
};

void report_plan(const std::string& file, const std::string& text, const fs::path& folder, Report& report) {
  Plan plan = plan_from_json(text, file);
  report.text += search_log_text(plan) + "\n";
  if (plan.search.log.best_so_far.empty()) return;
  std::string title = fmt::format("{} on {} devices of {}: strategy {}", plan.model.name, plan.devices, plan.topology,
                                  plan.search.strategy);
  report.add(folder / (fs::path(file).stem().string() + ".search.svg"), search_log_svg(plan, title));
}

// A table of all rows with a plan, for experiments that declare no figures.
std::string points_table(const ordered_json& rows) {
  std::string text = "| point | iteration, s | samples/s | search, s | candidates |\n|---|---:|---:|---:|---:|\n";
  for (const ordered_json& row : rows)
    if (row.contains("iteration_seconds"))
      text += fmt::format("| {} | {:.4g} | {:.4g} | {:.3g} | {} |\n", row.value("point", ""),
                          row["iteration_seconds"].get<double>(), row.value("samples_per_second", 0.0),
                          row.value("search_seconds", 0.0), row.value("candidates", std::int64_t{0}));
  return text;
}

void report_results(const std::string& file, const ordered_json& results, const Options& o, const fs::path& folder,
                    Report& report) {
  const ordered_json& rows = results.at("rows");
  fs::path beside = fs::path(file).parent_path() / "experiment.yaml";
  std::string experiment_file = o.experiment.empty() ? beside.string() : o.experiment;
  if (o.experiment.empty() && !fs::exists(beside))
    throw_input_error("{}: there is no experiment.yaml beside it, which says what to draw; name one by --experiment",
                      file);
  Experiment experiment = load_experiment(experiment_file);
  std::string text = fmt::format("# {}\n", experiment.name);
  for (const Figure& figure : experiment.figures) {
    FigureValues values = figure_values(figure, rows);
    report.add(folder / (figure.name + ".svg"), draw_charts(figure.title, figure_charts(figure, values)));
    text += fmt::format("\n## {}\n\n![{}]({}.svg)\n\n{}", figure.title, figure.name, figure.name,
                        figure_table(figure, values));
  }
  if (experiment.figures.empty()) text += "\n" + points_table(rows);
  std::string failures;
  for (const ordered_json& row : rows)
    if (row.contains("error"))
      failures += fmt::format("* {}: {}\n", row.value("point", ""), row["error"].get<std::string>());
  if (!failures.empty()) text += "\n## Points without a plan\n\n" + failures;
  report.text += text + "\n";
  report.add(folder / "report.md", std::move(text));
}

void report(const Options& o) {
  Report made;
  if (!o.folder.empty()) {
    std::error_code error;
    fs::create_directories(o.folder, error);
    if (error) throw_input_error("{}: cannot be written: {}", o.folder, error.message());
  }
  for (const std::string& file : o.files) {
    std::string text = read_file(file);
    fs::path folder = o.folder.empty() ? fs::path(file).parent_path() : fs::path(o.folder);
    ordered_json parsed = ordered_json::parse(text, nullptr, false);
    std::string format =
        parsed.is_object() && parsed.contains("format") && parsed["format"].is_string() ? parsed["format"] : "";
    try {
      if (format == "unity-results")
        report_results(file, parsed, o, folder, made);
      else  // what is no plan is refused with place and reason
        report_plan(file, text, folder, made);
    } catch (const nlohmann::json::exception& e) {
      throw_input_error("{}: is not the result of a sweep: {}", file, e.what());
    }
  }
  for (const auto& [path, content] : made.files) write_file_atomically(path, content);
  fmt::print("{}", made.text);
  for (const auto& [path, content] : made.files) fmt::print("written: {}\n", path);
}

}  // namespace

void add_report(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      add_command(app, "report", "Draw what searches did, and the figures of an experiment",
                  "  unity report plan.json\n"
                  "  unity report out/figure-14/results.json -o figures\n"
                  "  unity report out/figure-14/results.json --experiment experiments/figure-14/experiment.yaml");
  command->add_option("FILE", o->files, "Plans (search, sweep) and results of sweeps (results.json)")->required();
  command->add_option("-o,--output", o->folder, "Folder for drawings and report.md (default: beside each file)");
  command->add_option("--experiment", o->experiment,
                      "The experiment whose figures are drawn (default: experiment.yaml beside the results)");
  command->callback([o] { report(*o); });
}

}  // namespace unity::cli
