// The figures of an experiment, from the rows of its results: as charts and as tables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/report/chart.h"
#include "core/report/experiment.h"
#include "core/report/results.h"
#include "core/report/text_table.h"

namespace unity::report {

// A figure's values by panel, x and series, each in the order of the rows; numbers along x in their own order.
struct FigureValues {
  struct Cell {
    std::optional<double> ours;
    std::optional<Published> published;
  };
  std::vector<std::string> panels, xs, series;
  std::vector<std::vector<std::vector<Cell>>> cells;
};

FigureValues figure_values(const Figure& figure, const std::vector<ResultRow>& rows);

// A chart for each panel. What is published has outlines in the colour of its series.
std::vector<Chart> figure_charts(const Figure& figure, const FigureValues& values);

// A row for each panel and x, a column for each series, and one for what is published of it; and the same as Markdown.
TextTable figure_cells(const Figure& figure, const FigureValues& values);
std::string figure_table(const Figure& figure, const FigureValues& values);

}  // namespace unity::report
