#include "core/report/figures.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/text.h"

namespace unity::report {
namespace {

bool counts(const Figure& figure, const ResultRow& row) {
  for (const auto& [column, values] : figure.only)
    if (std::find(values.begin(), values.end(), row.text(column)) == values.end()) return false;
  return true;
}

std::size_t place_in(std::vector<std::string>& list, const std::string& value) {
  auto it = std::find(list.begin(), list.end(), value);
  if (it == list.end()) it = list.insert(list.end(), value);
  return static_cast<std::size_t>(it - list.begin());
}

double taken(const std::string& how, const std::vector<double>& values) {
  if (how == "max") return *std::max_element(values.begin(), values.end());
  if (how == "min") return *std::min_element(values.begin(), values.end());
  double sum = 0;
  for (double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

std::string in_table(double value) {
  double size = std::abs(value);
  return size < 1000 || size >= 1e15 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
}

}  // namespace

FigureValues figure_values(const Figure& figure, const std::vector<ResultRow>& rows) {
  auto known = quantities().find(figure.y);
  bool more_is_better = known != quantities().end() && known->second;
  std::map<std::string, double> base;  // by place: the best of the variants that others are divided by
  for (const ResultRow& row : rows) {
    std::optional<double> value = row.number(figure.y);
    if (!value) continue;
    if (std::find(figure.over.begin(), figure.over.end(), row.text("variant")) == figure.over.end()) continue;
    double y = *value;
    auto [it, first] = base.emplace(place_of(row), y);
    if (!first) it->second = more_is_better ? std::max(it->second, y) : std::min(it->second, y);
  }
  FigureValues values;
  std::map<std::array<std::string, 3>, std::vector<double>> found;  // by panel, x, series
  for (const ResultRow& row : rows) {
    if (!counts(figure, row)) continue;
    std::array<std::string, 3> key = {figure.panels.empty() ? "" : row.text(figure.panels), row.text(figure.x),
                                      row.text(figure.series)};
    place_in(values.panels, key[0]), place_in(values.xs, key[1]), place_in(values.series, key[2]);
    std::optional<double> value = row.number(figure.y);
    if (!value) continue;
    double y = *value;
    if (!figure.over.empty()) {
      auto by = base.find(place_of(row));
      if (by == base.end() || by->second == 0) continue;
      y /= by->second;
    }
    found[key].push_back(y);
  }
  if (values.panels.empty()) values.panels.emplace_back();
  for (const auto& [series, by_x] : figure.published) {
    place_in(values.series, series);
    for (const auto& [x, range] : by_x) place_in(values.xs, x);
  }
  if (std::all_of(values.xs.begin(), values.xs.end(), [](const std::string& x) { return number_of(x).has_value(); }))
    std::stable_sort(values.xs.begin(), values.xs.end(),
                     [](const std::string& a, const std::string& b) { return *number_of(a) < *number_of(b); });
  for (const std::string& panel : values.panels) {
    auto& by_x = values.cells.emplace_back();
    for (const std::string& x : values.xs) {
      auto& by_series = by_x.emplace_back();
      for (const std::string& series : values.series) {
        FigureValues::Cell& cell = by_series.emplace_back();
        if (auto it = found.find({panel, x, series}); it != found.end()) cell.ours = taken(figure.take, it->second);
        if (auto s = figure.published.find(series); s != figure.published.end())
          if (auto p = s->second.find(x); p != s->second.end()) cell.published = p->second;
      }
    }
  }
  return values;
}

std::vector<Chart> figure_charts(const Figure& figure, const FigureValues& values) {
  std::vector<Chart> charts;
  std::string label = figure.over.empty() ? figure.y : fmt::format("{} / that of {}", figure.y, join(figure.over));
  if (label.size() > 46) label = figure.y + " / the best baseline's";
  std::replace(label.begin(), label.end(), '_', ' ');
  for (std::size_t p = 0; p < values.panels.size(); ++p) {
    Chart chart{.kind = figure.lines ? Chart::Kind::lines : Chart::Kind::bars,
                .title = values.panels[p],
                .x_label = figure.x,
                .y_label = label,
                .categories = figure.lines ? std::vector<std::string>{} : values.xs,
                .log_x = figure.log_x,
                .log_y = figure.log_y};
    for (std::size_t s = 0; s < values.series.size(); ++s) {
      ChartSeries ours{values.series[s], static_cast<int>(s), false, {}},
          theirs{fmt::format("{} ({})", values.series[s], figure.source), static_cast<int>(s), true, {}};
      for (std::size_t i = 0; i < values.xs.size(); ++i) {
        const FigureValues::Cell& cell = values.cells[p][i][s];
        double x = figure.lines ? number_of(values.xs[i]).value_or(0) : static_cast<double>(i);
        if (cell.ours) ours.points.push_back({x, *cell.ours, *cell.ours});
        if (cell.published) theirs.points.push_back({x, cell.published->first, cell.published->second});
      }
      if (!ours.points.empty()) chart.series.push_back(std::move(ours));
      if (!theirs.points.empty()) chart.series.push_back(std::move(theirs));
    }
    charts.push_back(std::move(chart));
  }
  return charts;
}

TextTable figure_cells(const Figure& figure, const FigureValues& values) {
  TextTable table{{}, {}, figure.panels.empty() ? 1u : 2u};
  if (!figure.panels.empty()) table.header.push_back(figure.panels);
  table.header.push_back(figure.x);
  for (const std::string& series : values.series) {
    table.header.push_back(series);
    if (figure.published.contains(series)) table.header.push_back(fmt::format("{} ({})", series, figure.source));
  }
  for (std::size_t p = 0; p < values.panels.size(); ++p)
    for (std::size_t x = 0; x < values.xs.size(); ++x) {
      std::vector<TextCell> line;
      if (!figure.panels.empty()) line.emplace_back(values.panels[p]);
      line.emplace_back(values.xs[x]);
      for (std::size_t s = 0; s < values.series.size(); ++s) {
        const FigureValues::Cell& cell = values.cells[p][x][s];
        line.emplace_back(cell.ours ? in_table(*cell.ours) : "-");
        if (!figure.published.contains(values.series[s])) continue;
        std::string theirs = "-";
        if (cell.published) theirs = in_table(cell.published->first);
        if (cell.published && cell.published->second > cell.published->first)
          theirs += " to " + in_table(cell.published->second);
        line.emplace_back(theirs);
      }
      table.rows.push_back(std::move(line));
    }
  return table;
}

std::string figure_table(const Figure& figure, const FigureValues& values) {
  return values.xs.empty() ? "no points yet\n" : to_markdown(figure_cells(figure, values));
}

}  // namespace unity::report
