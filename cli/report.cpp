// unity report: what a search did, and the figures of an experiment, as text and drawings.
#include <filesystem>
#include <map>
#include <memory>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/search_log_text.h"
#include "core/base/text.h"
#include "core/report/experiment.h"
#include "core/report/figures.h"
#include "core/report/results.h"

namespace unity::cli {
namespace {

namespace fs = std::filesystem;

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
std::string points_table(const std::vector<report::ResultRow>& rows) {
  std::string text = "| point | iteration, s | samples/s | search, s | candidates |\n|---|---:|---:|---:|---:|\n";
  for (const report::ResultRow& row : rows)
    if (auto seconds = row.number("iteration_seconds"))
      text += fmt::format("| {} | {:.4g} | {:.4g} | {:.3g} | {:.0f} |\n", row.text("point"), *seconds,
                          row.number("samples_per_second").value_or(0), row.number("search_seconds").value_or(0),
                          row.number("candidates").value_or(0));
  return text;
}

void report_results(const std::string& file, const std::string& json, const Options& o, const fs::path& folder,
                    Report& made) {
  std::vector<report::ResultRow> rows = report::results_from_json(json, file).rows;
  fs::path beside = fs::path(file).parent_path() / "experiment.yaml";
  std::string experiment_file = o.experiment.empty() ? beside.string() : o.experiment;
  if (o.experiment.empty() && !fs::exists(beside))
    throw_input_error("{}: there is no experiment.yaml beside it, which says what to draw; name one by --experiment",
                      file);
  report::Experiment experiment = report::load_experiment(experiment_file);
  std::string text = fmt::format("# {}\n", experiment.name);
  for (const report::Figure& figure : experiment.figures) {
    report::FigureValues values = report::figure_values(figure, rows);
    made.add(folder / (figure.name + ".svg"), report::draw_charts(figure.title, report::figure_charts(figure, values)));
    text += fmt::format("\n## {}\n\n![{}]({}.svg)\n\n{}", figure.title, figure.name, figure.name,
                        report::figure_table(figure, values));
  }
  if (experiment.figures.empty()) text += "\n" + points_table(rows);
  std::string failures;
  for (const report::ResultRow& row : rows)
    if (row.find("error")) failures += fmt::format("* {}: {}\n", row.text("point"), row.text("error"));
  if (!failures.empty()) text += "\n## Points without a plan\n\n" + failures;
  made.text += text + "\n";
  made.add(folder / "report.md", std::move(text));
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
    if (report::is_results(text))
      report_results(file, text, o, folder, made);
    else  // what is no plan is refused with place and reason
      report_plan(file, text, folder, made);
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
