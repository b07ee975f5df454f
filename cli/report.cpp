// unity report: what a search did, and the figures of an experiment, as text and drawings, or as one HTML file; and how
// results differ from others.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>

#include <CLI/CLI.hpp>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/search_log_text.h"
#include "cli/table.h"
#include "core/base/nesting.h"
#include "core/base/text.h"
#include "core/report/comparison.h"
#include "core/report/experiment.h"
#include "core/report/figures.h"
#include "core/report/html_report.h"
#include "core/report/results.h"

namespace unity::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> files;
  std::string output, experiment, against, tolerance, search_tolerance;
  bool html = false;

  // Where the HTML file goes; empty: none is asked for.
  std::string page() const {
    if (output.ends_with(".html") || output.ends_with(".htm")) return output;
    if (!html) return {};
    return ((output.empty() ? fs::path(files.front()).parent_path() : fs::path(output)) / "report.html").string();
  }
};

// What is printed and written when all files could be reported.
struct Report {
  std::string text;
  std::map<std::string, std::string> files;
  std::vector<std::string> titles;
  std::vector<report::HtmlSection> sections;

  void add(const fs::path& path, std::string content) {
    if (!files.emplace(path.lexically_normal().string(), std::move(content)).second)
      throw_input_error("{}: two of the files are reported there; report them one by one", path.string());
  }
};

void report_plan(const std::string& file, const std::string& text, const fs::path& folder, bool html, Report& report) {
  Plan plan = plan_from_json(text, file);
  std::string words = search_log_text(plan);
  report.text += words + "\n";
  std::string title = fmt::format("{} on {} devices of {}: strategy {}", plan.model.name, plan.devices, plan.topology,
                                  plan.search.strategy);
  std::vector<std::string> drawings;
  if (!plan.search.log.best_so_far.empty()) drawings.push_back(search_log_svg(plan, title));
  if (!html && !drawings.empty())
    report.add(folder / (fs::path(file).stem().string() + ".search.svg"), drawings.front());
  report.titles.push_back(title);
  report.sections.push_back(report::text_section(title, words, drawings));
}

// A table of all rows with a plan, for experiments that declare no figures.
std::string points_table(const std::vector<report::ResultRow>& rows) {
  report::TextTable table{{"point", "iteration, s", "samples/s", "search, s", "candidates"}, {}, 1};
  for (const report::ResultRow& row : rows)
    if (auto seconds = row.number("iteration_seconds"))
      table.rows.push_back({row.text("point"), fmt::format("{:.4g}", *seconds),
                            fmt::format("{:.4g}", row.number("samples_per_second").value_or(0)),
                            fmt::format("{:.3g}", row.number("search_seconds").value_or(0)),
                            fmt::format("{:.0f}", row.number("candidates").value_or(0))});
  return to_markdown(table);
}

// The experiment whose figures are drawn. None, with the reason in the note, where none is named or beside the results.
std::optional<report::Experiment> experiment_of(const std::string& file, const Options& o, std::string& note) {
  fs::path beside = fs::path(file).parent_path() / "experiment.yaml";
  if (!o.experiment.empty()) return report::load_experiment(o.experiment);
  if (fs::exists(beside)) return report::load_experiment(beside.string());
  note =
      fmt::format("{}: there is no experiment.yaml beside it, which says what to draw; name one by --experiment", file);
  return std::nullopt;
}

// Whether a row is of this point but for the settings of its variant, as the experiment had them before.
bool had_other_settings(const std::string& row, const report::GridPoint& p) {
  report::GridPoint plain = p;
  plain.variant.text.clear();
  const std::string key = plain.key(), name = "/" + p.variant.name;
  const std::size_t end = key.find(name, key.find("/devices=")) + name.size();  // of the variant's name
  const std::string_view before = std::string_view(key).substr(0, end), behind = std::string_view(key).substr(end);
  if (!row.starts_with(before) || !row.ends_with(behind) || row.size() < key.size()) return false;
  const std::string_view settings = std::string_view(row).substr(end, row.size() - key.size());
  return row != p.key() && (settings.empty() || (settings.starts_with(" (") && settings.ends_with(")")));
}

// Leaves out rows of points whose settings have changed: figures would mix them with today's. Says how far the grid was
// run, and what else is among the rows; empty: all of it, and nothing.
std::string keep_grid(const report::Experiment& experiment, std::vector<report::ResultRow>& rows) {
  std::set<std::string> points;
  for (const report::GridPoint& p : experiment.grid) points.insert(p.key());
  const std::size_t old = std::erase_if(rows, [&](const report::ResultRow& row) {
    const std::string point = row.text("point");
    return !points.contains(point) && std::any_of(experiment.grid.begin(), experiment.grid.end(),
                                                  [&](const auto& p) { return had_other_settings(point, p); });
  });
  std::set<std::string> seen;
  std::size_t others = 0;
  for (const report::ResultRow& row : rows)
    if (std::string point = row.text("point"); points.contains(point))
      seen.insert(std::move(point));
    else
      ++others;
  std::vector<std::string> notes;
  if (seen.size() < points.size())
    notes.push_back(fmt::format("{} of {} points of the grid have no row yet; unity sweep --resume goes on with them",
                                points.size() - seen.size(), points.size()));
  if (others > 0)
    notes.push_back(fmt::format("{} row{} of no point of the grid", others, others == 1 ? " is" : "s are"));
  if (old > 0)
    notes.push_back(
        fmt::format("{} row{} of variants with other settings, and left out", old, old == 1 ? " is" : "s are"));
  return join(notes, "; ");
}

void report_results(const std::string& file, const std::string& json, const Options& o, const fs::path& folder,
                    Report& made) {
  report::ResultsReport of{
      file, fs::path(o.page()).parent_path().string(), report::results_from_json(json, file), {}, {}};
  of.experiment = experiment_of(file, o, of.note);
  if (of.experiment) of.note = keep_grid(*of.experiment, of.results.rows);
  const bool html = !o.page().empty();
  const std::vector<report::ResultRow>& rows = of.results.rows;
  if (!of.experiment && !html) throw InputError(of.note);
  std::string text = fmt::format("# {}\n", report::in_markdown(of.experiment ? of.experiment->name : file));
  if (of.experiment)
    for (const report::Figure& figure : of.experiment->figures) {
      report::FigureValues values = report::figure_values(figure, rows);
      if (!html)
        made.add(folder / (figure.name + ".svg"),
                 report::draw_charts(figure.title, report::figure_charts(figure, values)));
      text += fmt::format("\n## {}\n\n![{}]({}.svg)\n\n{}", report::in_markdown(figure.title), figure.name, figure.name,
                          report::figure_table(figure, values));
    }
  if (!of.experiment || of.experiment->figures.empty()) text += "\n" + points_table(rows);
  std::string failures;
  for (const report::ResultRow& row : rows)
    if (row.find("error"))
      failures +=
          fmt::format("* {}: {}\n", report::in_markdown(row.text("point")), report::in_markdown(row.text("error")));
  if (!failures.empty()) text += "\n## Points without a plan\n\n" + failures;
  if (of.experiment && !of.note.empty()) text += fmt::format("\n**{}**\n", of.note);
  text += "\n## What was run\n\n" + to_markdown(report::run_table(of.results));
  made.text += text + "\n";
  if (!html) made.add(folder / "report.md", std::move(text));
  made.titles.push_back(of.experiment ? of.experiment->name : file);
  if (html) made.sections.push_back(report::results_section(of));
}

// The file of a folder of results.
std::string results_of(const std::string& path) {
  if (!fs::is_directory(path)) return path;
  const fs::path file = fs::path(path) / "results.json";
  if (!fs::exists(file) && fs::is_directory(fs::path(path) / "parts"))
    throw_input_error("{}: is not there yet, but parts of it are: unity sweep EXPERIMENT -o {} --merge joins them",
                      file.string(), path);
  return file.string();
}

std::string words(const report::TextTable& table) {
  Table aligned(table.header);
  for (std::size_t i = 1; i < table.texts; ++i) aligned.left(i);
  for (const auto& row : table.rows) {
    std::vector<std::string> cells;
    for (const report::TextCell& cell : row) cells.push_back(cell.text);
    aligned.add(cells);
  }
  return aligned.text();
}

// Prints what has changed since other results, and adds it to the report. How many regressions there are.
std::size_t compare_results(const Options& o, const fs::path& folder, bool writes, Report& made) {
  const std::string& file = o.files.front();
  const std::string text = read_file(file);
  if (o.files.size() != 1 || !report::is_results(text))
    throw_input_error("--against: found {}, expected one file of results to compare with {}",
                      o.files.size() != 1 ? fmt::format("{} files", o.files.size()) : file, o.against);
  report::ComparisonOptions options;
  if (!o.tolerance.empty()) options.tolerance = report::parse_tolerance("--tolerance", o.tolerance);
  if (!o.search_tolerance.empty())
    options.search_tolerance = report::parse_tolerance("--search-tolerance", o.search_tolerance);
  report::Results before = report::results_from_json(read_file(o.against), o.against),
                  now = report::results_from_json(text, file);
  report::Comparison comparison = report::compare(before, now, options);
  report::TextTable changes = report::changes_table(comparison);
  std::vector<std::string> lines = report::provenance_lines(comparison);
  std::string differs, items;
  for (const std::string& line : lines) differs += line + "\n", items += "* " + line + "\n";
  std::string table = changes.rows.empty() ? "" : words(changes) + "\n";
  made.text += fmt::format("{} against {}\n\n{}{}{}{}\n", file, o.against, table, differs, lines.empty() ? "" : "\n",
                           report::verdict(comparison));
  made.sections.insert(made.sections.begin(), report::comparison_section(comparison, o.against, file));
  if (writes && o.page().empty())
    made.add(folder / "changes.md",
             fmt::format("# What has changed\n\n{} against {}\n\n**{}**\n\n{}{}{}", file, o.against,
                         report::verdict(comparison), changes.rows.empty() ? "" : to_markdown(changes) + "\n", items,
                         items.empty() ? "" : "\n"));
  return comparison.regressions();
}

void report(Options o) {
  if (o.against.empty() && !(o.tolerance.empty() && o.search_tolerance.empty()))
    throw_input_error("report: --tolerance and --search-tolerance are of --against, which is missing");
  if (!o.against.empty()) o.against = results_of(o.against);
  for (std::string& file : o.files) file = results_of(file);
  const std::string page = o.page();
  const fs::path output = page.empty() ? fs::path(o.output) : fs::path(page).parent_path();
  // To ask what has changed writes nothing, unless it says where.
  const bool writes = o.against.empty() || !o.output.empty() || o.html;
  if (!o.experiment.empty() && !writes)
    throw_input_error("report: --experiment is of the report, which --against writes only with -o or --html");
  if (!output.empty()) {
    std::error_code error;
    fs::create_directories(output, error);
    if (error) throw_input_error("{}: cannot be written: {}", output.string(), error.message());
  }
  Report made;
  bool results = false;
  for (const std::string& file : o.files) {
    if (!writes) break;
    std::string text = read_file(file);
    refuse_no_json(text, file, "a plan or the results of a sweep (results.json)");
    fs::path folder = output.empty() ? fs::path(file).parent_path() : output;
    if (report::is_results(text))
      results = true, report_results(file, text, o, folder, made);
    else  // what is no plan is refused with place and reason
      report_plan(file, text, folder, !page.empty(), made);
  }
  if (!o.experiment.empty() && !results)
    throw_input_error("report: --experiment is of results of sweeps, found plans alone: {}", join(o.files));
  std::size_t regressions = 0;
  if (!o.against.empty())
    regressions = compare_results(o, output.empty() ? fs::path(o.files.front()).parent_path() : output, writes, made);
  if (!page.empty()) made.add(page, report::html_page(join(made.titles), made.sections));
  for (const auto& [path, content] : made.files) write_file_atomically(path, content);
  fmt::print("{}", made.text);
  for (const auto& [path, content] : made.files) fmt::print("written: {}\n", path);
  if (regressions)
    throw std::runtime_error(
        fmt::format("report: {} regression{} against {}", regressions, regressions == 1 ? "" : "s", o.against));
}

}  // namespace

void add_report(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      add_command(app, "report", "Draw what searches did, and the figures of an experiment; compare results",
                  "  unity report plan.json\n"
                  "  unity report out/figure-14/results.json -o figures\n"
                  "  unity report out/figure-14/results.json --experiment experiments/figure-14/experiment.yaml\n"
                  "  unity report out/figure-14/results.json --html\n"
                  "  unity report out/figure-14 out/table-2 -o both.html\n"
                  "  unity report new/results.json --against old/results.json --tolerance 0.1%");
  command->add_option("FILE", o->files, "Plans (search, sweep) and results of sweeps (results.json, or its folder)")
      ->required();
  output_file(command->add_option("-o,--output", o->output,
                                  "Folder for drawings and report.md (default: beside each file), or FILE.html"));
  command->add_flag("--html", o->html, "One HTML file with all of it, report.html, in place of drawings and report.md");
  command->add_option("--experiment", o->experiment,
                      "The experiment whose figures are drawn (default: experiment.yaml beside the results)");
  command->add_option("--against", o->against,
                      "Results to compare with: what has become slower, or has no plan any more, is a regression, and "
                      "the exit code 1");
  command->add_option("--tolerance", o->tolerance,
                      "Predicted times that are longer by this share are no regression, as in 1% or 0.01 (default: "
                      "0.0000001%)");
  command->add_option("--search-tolerance", o->search_tolerance,
                      "Searches that take longer by more than this share are regressions (default: none are)");
  command->callback([o] { report(*o); });
}

}  // namespace unity::cli
