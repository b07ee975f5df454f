#include "gui/panels/experiments/view.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "core/base/text.h"
#include "core/base/units.h"
#include "core/report/provenance.h"

namespace unity::gui {
namespace {

using report::ResultRow;
using report::Results;

bool is_long(const std::string& column) {
  const std::vector<std::string>& provenance = report::provenance_columns();
  return column == "point" || column == "plan" || column == "stopped_because" || column == "error" ||
         column == "search_log" || std::find(provenance.begin(), provenance.end(), column) != provenance.end();
}

// "devices>2": a column with a bound; anything else is a part of any cell.
bool holds(const ResultRow& row, const std::string& word) {
  std::size_t at = word.find_first_of("=<>");
  if (at != std::string::npos && at > 0) {
    std::string column = word.substr(0, at), value = word.substr(at + 1);
    if (word[at] == '=') return row.text(column) == value;
    auto have = row.number(column), bound = report::number_of(value);
    return have && bound && (word[at] == '<' ? *have < *bound : *have > *bound);
  }
  return std::any_of(row.cells.begin(), row.cells.end(), [&](const auto& cell) {
    return cell.first != "plan" && cell.second.find(word) != std::string::npos;
  });
}

}  // namespace

std::vector<std::string> columns_of(const Results& results) {
  std::vector<std::string> columns;
  std::set<std::string> there, known;
  for (const ResultRow& row : results.rows)
    for (const auto& [name, value] : row.cells) there.insert(name);
  for (const std::string& column : report::result_columns())
    if (there.contains(column)) columns.push_back(column), known.insert(column);
  for (const ResultRow& row : results.rows)
    for (const auto& [name, value] : row.cells)
      if (known.insert(name).second) columns.push_back(name);
  return columns;
}

std::vector<std::string> telling_columns(const Results& results) {
  std::vector<std::string> columns;
  for (const std::string& column : columns_of(results)) {
    if (is_long(column)) continue;
    std::set<std::string> values;
    for (const ResultRow& row : results.rows) values.insert(row.text(column));
    bool doubled =
        column == "strategy" && std::all_of(results.rows.begin(), results.rows.end(), [](const ResultRow& r) {
          return r.text("strategy") == r.text("variant") || !r.find("variant");
        });
    if ((values.size() > 1 || results.rows.size() == 1) && !doubled) columns.push_back(column);
  }
  return columns;
}

std::vector<std::string> number_columns(const Results& results) {
  std::vector<std::string> columns;
  for (const std::string& column : columns_of(results)) {
    bool any = false, all = true;
    for (const ResultRow& row : results.rows)
      if (row.find(column)) any = true, all = all && row.number(column);
    if (any && all) columns.push_back(column);
  }
  return columns;
}

std::vector<std::size_t> table_rows(const Results& results, const TableOptions& options) {
  std::istringstream in(options.filter);
  std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
  std::vector<std::size_t> rows;
  for (std::size_t r = 0; r < results.rows.size(); ++r)
    if (std::all_of(words.begin(), words.end(), [&](const std::string& w) { return holds(results.rows[r], w); }))
      rows.push_back(r);
  if (options.sort.empty()) return rows;
  // Numbers by value, before texts; rows without the cell at the end, either way.
  std::stable_sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) {
    const ResultRow &left = results.rows[a], &right = results.rows[b];
    const std::string *l = left.find(options.sort), *r = right.find(options.sort);
    if (!l || !r) return l && !r;
    auto x = report::number_of(*l), y = report::number_of(*r);
    if (x && y) return options.descending ? *x > *y : *x < *y;
    if (x || y) return x && !y;
    return options.descending ? *l > *r : *l < *r;
  });
  return rows;
}

std::string cell_text(const ResultRow& row, const std::string& column) {
  const std::string* text = row.find(column);
  if (!text) return column == "iteration_seconds" && row.find("error") ? "no plan" : "-";
  auto number = report::number_of(*text);
  if (!number) return *text;
  if (column.ends_with("_seconds")) return to_string(from_seconds(*number));
  if (column.ends_with("_bytes")) return to_string(Bytes{static_cast<std::int64_t>(*number)});
  if (*number == static_cast<double>(static_cast<std::int64_t>(*number))) return fmt::format("{:.0f}", *number);
  if (*number >= 1e4) return fmt::format("{:.0f}", *number);
  return fmt::format("{:.5g}", *number);
}

PlotOptions first_plot(const Results& results) {
  auto different = [&](const std::string& column) {
    std::set<std::string> values;
    for (const ResultRow& row : results.rows) values.insert(row.text(column));
    return values.size();
  };
  std::vector<std::string> numbers = number_columns(results);
  auto has = [&](const char* column) { return std::find(numbers.begin(), numbers.end(), column) != numbers.end(); };
  PlotOptions plot;
  plot.x = has("devices") && different("devices") > 1 ? "devices" : "model";
  plot.y = has("samples_per_second") ? "samples_per_second" : numbers.empty() ? "" : numbers.back();
  plot.series = "variant";
  if (plot.x != "model" && different("model") > 1) plot.panels = "model";
  plot.lines = plot.x == "devices";
  plot.log_y = plot.lines;
  return plot;
}

report::Figure figure_of(const PlotOptions& options, const Results& results) {
  report::Figure figure;
  figure.name = "plot";
  std::string y = options.y;
  std::replace(y.begin(), y.end(), '_', ' ');
  figure.title = fmt::format("{} by {}", y, options.x);
  figure.x = options.x, figure.y = options.y, figure.series = options.series, figure.panels = options.panels;
  std::vector<std::string> numbers = number_columns(results);
  // Lines are drawn along numbers.
  figure.lines = options.lines && std::find(numbers.begin(), numbers.end(), options.x) != numbers.end();
  figure.log_x = options.log_x && figure.lines;
  figure.log_y = options.log_y;
  auto known = report::quantities().find(options.y);
  figure.take = known != report::quantities().end() && known->second ? "max" : "min";
  return figure;
}

ChartPage chart_page(const report::Figure& figure, const Results& results) {
  ChartPage page{figure.title, {}, {}};
  report::FigureValues values = report::figure_values(figure, results.rows);
  page.charts = report::figure_charts(figure, values);
  std::erase_if(page.charts, [](const report::Chart& chart) { return chart.series.empty(); });
  if (page.charts.empty()) page.note = fmt::format("no row has {}: there is nothing to be drawn", figure.y);
  return page;
}

std::string plan_path(const ResultRow& row, const std::string& results) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path file = fs::is_directory(results, error) ? fs::path(results) / "results.json" : fs::path(results);
  std::string beside = report::plan_beside(row, file.string());
  return beside.empty() ? row.text("plan") : beside;
}

}  // namespace unity::gui
