// What the experiments panel shows of a sweep: rows of a table, and charts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/report/chart.h"
#include "core/report/figures.h"
#include "gui/session/document.h"

namespace unity::gui {

// All columns that any row has, those of `unity sweep` in its order, then the others.
std::vector<std::string> columns_of(const report::Results& results);
// Those worth showing: whose values differ, but for the point's name, paths and long texts.
std::vector<std::string> telling_columns(const report::Results& results);
// Those with a number in every row that has the column.
std::vector<std::string> number_columns(const report::Results& results);

// A table: rows that hold all words of the filter ("bert devices=4 samples_per_second>100"), by a column.
struct TableOptions {
  std::string filter, sort;  // sort: a column; empty: as they are written
  bool descending = false;
  bool operator==(const TableOptions&) const = default;
};
std::vector<std::size_t> table_rows(const report::Results& results, const TableOptions& options);
// A cell as it is shown: "526.6 ms", "5.13 GB", "1458.4".
std::string cell_text(const report::ResultRow& row, const std::string& column);

// A plot of the user's own, as a figure of an experiment.
struct PlotOptions {
  std::string x, y, series, panels;  // panels: empty: one chart
  bool lines = false, log_x = false, log_y = false;
  bool operator==(const PlotOptions&) const = default;
};
PlotOptions first_plot(const report::Results& results);
report::Figure figure_of(const PlotOptions& options, const report::Results& results);

// A page of charts under its title.
struct ChartPage {
  std::string title, note;  // note: why there are none
  std::vector<report::Chart> charts;
};
ChartPage chart_page(const report::Figure& figure, const report::Results& results);

// The path of a row's plan, in plans/ beside the results (a file, or its folder), else as the row names it; empty: it
// has none.
std::string plan_path(const report::ResultRow& row, const std::string& results);

}  // namespace unity::gui
