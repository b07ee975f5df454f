#include "core/report/html_report.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/base/text.h"
#include "core/base/xml.h"
#include "core/plan/plan.h"
#include "core/report/figures.h"
#include "core/report/provenance.h"
#include "core/report/search_charts.h"

namespace unity::report {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostCurves = 24;  // charts of searches in one report

const char* kStyle = R"css(
:root { color-scheme: light dark; --page: #fff; --text: #1b1f24; --dim: #59636e; --rule: #d1d9e0; --head: #f3f5f7;
  --link: #0858b0; --axis: #444; --grid: #ddd; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --page: #15181c; --text: #e2e6ea; --dim: #98a2ad; --rule: #363c44; --head: #20252b; --link: #7ab7ff;
    --axis: #a5aeb8; --grid: #333a42; --bad: #ff8a80; }
  svg .f0 { fill: #4da3dc } svg .k0 { stroke: #4da3dc } svg .f7 { fill: #bbb } svg .k7 { stroke: #bbb }
}
body { margin: 0 auto; padding: 1.5rem; max-width: 80rem; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .5rem } h2 { margin: 2.5rem 0 .5rem; border-bottom: 1px solid var(--rule) }
h3 { margin: 1.6rem 0 .4rem } h4 { margin: 1.2rem 0 .3rem }
a { color: var(--link) } .dim { color: var(--dim) } .bad { color: var(--bad); font-weight: 600 }
figure { margin: .6rem 0; overflow-x: auto } svg { max-width: 100%; height: auto }
svg .page { fill: none } svg text { fill: var(--text) } svg .axis { stroke: var(--axis) } svg .grid { stroke: var(--grid) }
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: .9rem; margin: .4rem 0 }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--rule); text-align: left; vertical-align: top }
th { background: var(--head); font-weight: 600 } .n { text-align: right; font-variant-numeric: tabular-nums }
pre { overflow-x: auto; background: var(--head); padding: .8rem; font-size: .85rem }
summary { cursor: pointer; color: var(--dim) } li { overflow-wrap: anywhere }
@media print {
  :root { --page: #fff; --text: #000; --dim: #444; --rule: #bbb; --head: #eee; --link: #000; --axis: #444; --grid: #ddd }
  body { max-width: none; padding: 0; font-size: 10pt } figure, tr, li { break-inside: avoid }
  h2, h3, h4 { break-after: avoid } .wide, figure { overflow: visible }
}
)css";

std::string heading(int level, const std::string& text) {
  return fmt::format("<h{0}>{1}</h{0}>\n", level, xml_escaped(text));
}

std::string paragraph(const std::string& text, const char* kind = "") {
  return fmt::format("<p{}>{}</p>\n", *kind ? fmt::format(R"( class="{}")", kind) : "", xml_escaped(text));
}

std::string items(const std::vector<std::string>& lines) {
  std::string text = "<ul>\n";
  for (const std::string& line : lines) text += "<li>" + xml_escaped(line) + "</li>\n";
  return text + "</ul>\n";
}

std::string folded(const std::string& summary, const std::string& content) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", xml_escaped(summary), content);
}

std::string drawing(const std::string& svg) { return "<figure>\n" + svg + "</figure>\n"; }

bool has_plan(const ResultRow& row) { return !row.find("error") && row.number("iteration_seconds").has_value(); }

// "bert-large, summit, 12 devices, batch per gpu 32"
std::string place_in_words(const ResultRow& row) {
  std::vector<std::string> words;
  for (const char* column : {"model", "topology"})
    if (row.find(column)) words.push_back(row.text(column));
  if (row.find("devices")) words.push_back(row.text("devices") + " devices");
  // Rows have both where the experiment says one; the whole follows from that of a device.
  for (const char* column :
       {row.find("batch_per_gpu") ? "batch_per_gpu" : "global_batch", "seq_len", "layers", "budget"})
    if (row.find(column)) {
      std::string name = column;
      std::replace(name.begin(), name.end(), '_', ' ');
      words.push_back(name + " " + row.text(column));
    }
  return join(words);
}

std::string quantity(const ResultRow& row, const std::string& column) {
  std::optional<double> value = row.number(column);
  if (!value) return row.find(column) ? row.text(column) : "-";
  return value_text(column, *value);
}

TextCell plan_link(const ResultRow& row, const ResultsReport& report) {
  std::string file = plan_beside(row, report.file);
  if (file.empty()) return "-";
  fs::path folder = report.page_folder.empty() ? fs::path(".") : fs::path(report.page_folder);
  return {"plan", fs::absolute(file).lexically_proximate(fs::absolute(folder).lexically_normal()).generic_string()};
}

TextTable points_table(const ResultsReport& report) {
  TextTable table{
      {"point", "iteration", "samples/s", "communication", "peak memory", "search", "candidates", "gap", "plan"},
      {},
      1};
  for (const ResultRow& row : report.results.rows) {
    if (!has_plan(row)) continue;
    std::vector<TextCell> cells = {row.text("point") + (stopped_for_time(row) ? " (stopped for time)" : "")};
    for (const char* column : {"iteration_seconds", "samples_per_second", "communication_bytes", "peak_memory_bytes",
                               "search_seconds", "candidates", "gap"})
      cells.emplace_back(quantity(row, column));
    cells.push_back(plan_link(row, report));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

// The best so far over candidates: a chart for each place, a line for each variant.
std::string search_curves(const ResultsReport& report) {
  std::vector<Chart> charts;
  std::map<std::string, std::size_t> chart_of;
  std::vector<std::string> variants, unread;
  std::set<std::string> beyond;
  for (const ResultRow& row : report.results.rows) {
    std::string file = has_plan(row) ? plan_beside(row, report.file) : "";
    constexpr double kFewest = 3;  // candidates that make a curve
    if (file.empty() || row.number("candidates").value_or(0) < kFewest) continue;
    std::string place = place_of(row), variant = row.find("variant") ? row.text("variant") : row.text("strategy");
    auto at = chart_of.find(place);
    if (at == chart_of.end() && charts.size() == kMostCurves) {
      beyond.insert(place);
      continue;
    }
    Chart curve;
    try {
      curve = best_so_far_chart(state_of(load_plan(file)), false);
    } catch (const InputError& why) {
      unread.emplace_back(why.what());
      continue;
    }
    if (curve.series.empty()) continue;
    auto color = std::find(variants.begin(), variants.end(), variant);
    if (color == variants.end()) color = variants.insert(variants.end(), variant);
    ChartSeries line = std::move(curve.series.front());
    line.name = variant;
    line.color = static_cast<int>(color - variants.begin());
    if (at == chart_of.end()) {
      at = chart_of.emplace(place, charts.size()).first;
      curve.title = place_in_words(row);
      curve.series.clear();
      charts.push_back(std::move(curve));
    }
    charts[at->second].series.push_back(std::move(line));
  }
  std::string text;
  if (!charts.empty()) text = drawing(draw_charts("best so far, by candidates scored", charts));
  if (!beyond.empty()) text += paragraph(fmt::format("and {} more", beyond.size()), "dim");
  if (!unread.empty()) text += paragraph("Plans that cannot be read:") + items(unread);
  return text.empty() ? "" : heading(3, "Searches") + text;
}

}  // namespace

std::string html_page(const std::string& title, const std::vector<HtmlSection>& sections) {
  std::string text =
      "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
      "<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n";
  text += fmt::format("<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n", xml_escaped(title), kStyle);
  text += heading(1, title);
  if (sections.size() > 1) {
    text += "<ul>\n";
    for (std::size_t i = 0; i < sections.size(); ++i)
      text += fmt::format("<li><a href=\"#part-{}\">{}</a></li>\n", i + 1, xml_escaped(sections[i].title));
    text += "</ul>\n";
  }
  for (std::size_t i = 0; i < sections.size(); ++i)
    text += fmt::format("<section id=\"part-{}\">\n<h2>{}</h2>\n{}</section>\n", i + 1, xml_escaped(sections[i].title),
                        sections[i].content);
  return text + "</body>\n</html>\n";
}

TextTable run_table(const Results& results) {
  TextTable table{{"what", "of all rows"}, {}, 2};
  std::size_t plans = 0, timed = 0;
  double search = 0;
  for (const ResultRow& row : results.rows) {
    plans += has_plan(row), timed += stopped_for_time(row);
    search += row.number("search_seconds").value_or(0);
  }
  if (!results.experiment.empty()) table.rows.push_back({"experiment", results.experiment});
  std::string counts = fmt::format("{}, {} with a plan", results.rows.size(), plans);
  if (timed) counts += fmt::format(", {} of searches that stopped for time and may not repeat", timed);
  table.rows.push_back({"points", counts});
  table.rows.push_back({"seconds of search", fmt::format("{:.4g}", search)});
  for (const auto& [column, values] : provenance_summary(results.rows)) {
    std::string name = column;
    std::replace(name.begin(), name.end(), '_', ' ');
    table.rows.push_back({name, values});
  }
  return table;
}

TextTable best_plans_table(const ResultsReport& report) {
  TextTable table{
      {"where", "fastest", "iteration", "samples/s", "peak memory", "gap", "next", "slower by", "plan"}, {}, 2};
  std::vector<std::string> order;
  std::map<std::string, std::vector<const ResultRow*>> places;
  for (const ResultRow& row : report.results.rows) {
    if (!has_plan(row)) continue;
    auto [at, first] = places.try_emplace(place_of(row));
    if (first) order.push_back(at->first);
    at->second.push_back(&row);
  }
  auto variant = [](const ResultRow& row) { return row.find("variant") ? row.text("variant") : row.text("strategy"); };
  for (const std::string& place : order) {
    auto& rows = places.at(place);
    std::stable_sort(rows.begin(), rows.end(), [](const ResultRow* a, const ResultRow* b) {
      return *a->number("iteration_seconds") < *b->number("iteration_seconds");
    });
    const ResultRow& best = *rows.front();
    std::string next = "-", slower = "-";
    if (rows.size() > 1) {
      double time = *best.number("iteration_seconds");
      next = variant(*rows[1]);
      if (time > 0) slower = fmt::format("{:.1f}%", 100 * (*rows[1]->number("iteration_seconds") / time - 1));
    }
    table.rows.push_back({place_in_words(best), variant(best), quantity(best, "iteration_seconds"),
                          quantity(best, "samples_per_second"), quantity(best, "peak_memory_bytes"),
                          quantity(best, "gap"), next, slower, plan_link(best, report)});
  }
  return table;
}

HtmlSection results_section(const ResultsReport& report) {
  const std::vector<ResultRow>& rows = report.results.rows;
  std::string text = heading(3, "What was run") + to_html(run_table(report.results));
  if (!report.note.empty()) text += paragraph(report.note, "dim");
  if (report.experiment && !report.experiment->figures.empty()) {
    text += heading(3, "Figures");
    for (const Figure& figure : report.experiment->figures) {
      FigureValues values = figure_values(figure, rows);
      text += heading(4, figure.title) + drawing(draw_charts(figure.title, figure_charts(figure, values)));
      text += folded("the numbers", to_html(figure_cells(figure, values)));
    }
  }
  if (TextTable best = best_plans_table(report); !best.rows.empty())
    text += heading(3, "The fastest plans") + to_html(best);
  if (TextTable points = points_table(report); !points.rows.empty())
    text += heading(3, "All plans") + folded(fmt::format("{} points", points.rows.size()), to_html(points));
  std::vector<std::string> failures;
  for (const ResultRow& row : rows)
    if (row.find("error")) failures.push_back(fmt::format("{}: {}", row.text("point"), row.text("error")));
  if (!failures.empty()) text += heading(3, "Points without a plan") + items(failures);
  text += search_curves(report);
  std::string name = report.experiment ? report.experiment->name : report.file;
  return {name, text};
}

HtmlSection comparison_section(const Comparison& comparison, const std::string& before, const std::string& now) {
  std::string text = paragraph(verdict(comparison), comparison.regressions() ? "bad" : "");
  text += paragraph(fmt::format("before: {}; now: {}", before, now), "dim");
  if (std::vector<std::string> lines = provenance_lines(comparison); !lines.empty())
    text += paragraph("What the results come from is not the same:") + items(lines);
  if (TextTable table = changes_table(comparison); !table.rows.empty()) text += to_html(table);
  return {"What has changed", text};
}

HtmlSection text_section(const std::string& title, const std::string& text, const std::vector<std::string>& drawings) {
  std::string content = "<pre>" + xml_escaped(text) + "</pre>\n";
  for (const std::string& svg : drawings) content += drawing(svg);
  return {title, content};
}

}  // namespace unity::report
