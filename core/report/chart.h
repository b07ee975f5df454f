// Charts: panels side by side under one title and one legend.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/report/sheet.h"

namespace unity::report {

struct ChartPoint {
  double x = 0;  // bars, rows: the number of the category
  double y = 0;
  double high = 0;  // of a range from y on; y where there is none
};

struct ChartSeries {
  std::string name;      // in the legend, which has each name once
  int color = 0;         // the same for what belongs together
  bool outside = false;  // figures of others, such as the paper's: drawn as outlines, dashed
  std::vector<ChartPoint> points;
};

struct Chart {
  enum class Kind { lines, steps, bars, rows };  // rows: bars that lie, with their labels before them
  Kind kind = Kind::lines;
  std::string title, x_label, y_label;
  std::vector<std::string> categories;  // bars, rows
  std::vector<ChartSeries> series;
  bool log_x = false, log_y = false;
  bool close = false;  // lines: axes around the values, rather than from 0
};

struct ChartBox {
  double left = 0, top = 0, right = 0, bottom = 0;
};
// One chart with its axes, without a legend.
void draw_chart(Sheet& sheet, const Chart& chart, const ChartBox& place);
// One entry for each name of a series, in lines from (left, top) on, as wide as that. Gives their height; draws nothing
// where there is no sheet.
double draw_legend(Sheet* sheet, const std::vector<Chart>& panels, double left, double top, double width);
// All of them, on a page of page_size().
void draw_page(Sheet& sheet, const std::string& title, const std::vector<Chart>& panels);
std::pair<double, double> page_size(const std::string& title, const std::vector<Chart>& panels);

// An SVG document. Points that a logarithmic axis cannot show (0 and less) are left out.
std::string draw_charts(const std::string& title, const std::vector<Chart>& panels);

// Three significant digits, or so many, with k, M, G for thousands: "1.23", "45.6k".
std::string short_number(double value, int digits = 3);

}  // namespace unity::report
