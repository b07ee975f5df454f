#include "core/report/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "core/report/svg.h"

namespace unity::report {
namespace {

constexpr double kPanelWidth = 420, kOnlyPanelWidth = 680, kPanelHeight = 300, kLegendLine = 18, kTitle = 40,
                 kMargin = 16;
constexpr std::size_t kPanelsInRow = 3, kMostMarks = 60;
constexpr double kLetter = 6.2;                      // wide, of size 11
constexpr double kMostDecades = 12;                  // that are told on an axis, else every second, third, ..
constexpr double kLeast = 1e-300, kHighest = 1e307;  // what arithmetic with some room still holds
constexpr Ink kAxis{Ink::Role::axis}, kGrid{Ink::Role::grid};
using Anchor = Sheet::Anchor;

Ink ink_of(const ChartSeries& s) { return {Ink::Role::series, s.color, s.outside}; }

using Box = ChartBox;

// From values to pixels.
struct Scale {
  double low, high, from, to;
  bool logarithmic;
  double at(double v) const {
    double part =
        logarithmic ? (std::log(v) - std::log(low)) / (std::log(high) - std::log(low)) : (v - low) / (high - low);
    return from + part * (to - from);
  }
  bool shows(double v) const { return std::isfinite(v) && (!logarithmic || v >= low) && std::abs(v) <= kHighest; }
  struct Ticks {
    std::vector<double> at;
    double step = 0;  // between them; 0: of a logarithmic scale
  };
  // 1, 2 or 5 times a power of ten; of a logarithmic scale over more than two decades powers of ten alone, and of one
  // so short that no two of these are on it, as of a linear one.
  Ticks ticks() const {
    if (logarithmic) {
      Ticks list;
      const double first = std::floor(std::log10(low)), last = std::ceil(std::log10(high));
      const double apart = std::max(1.0, std::ceil((last - first) / kMostDecades));
      for (double p = first; p <= last; p += apart)
        for (double m : {1.0, 2.0, 5.0})
          if (double v = m * std::pow(10, p); (m == 1 || high / low < 100) && v >= low * 0.9999 && v <= high * 1.0001)
            list.at.push_back(v);
      if (list.at.size() > 1) return list;
    }
    double rough = (high - low) / 5, power = std::pow(10, std::floor(std::log10(rough)));
    Ticks list{{}, 10 * power};
    for (double m : {5.0, 2.0, 1.0})
      if (m * power >= rough) list.step = m * power;
    const double begin = std::ceil(low / list.step), end = std::floor(high / list.step + 0.001);
    for (double i = 0; i <= std::min(end - begin, 10.0); ++i) list.at.push_back((begin + i) * list.step);
    return list;
  }
};

// Three significant digits, or as many as tell it from others that are a step away.
std::string tick_label(double value, double step) {
  int digits = 3;
  if (step > 0 && value != 0 && std::isfinite(value))
    digits = std::clamp(1 + static_cast<int>(std::floor(std::log10(std::abs(value) * 1.0000001)) -
                                             std::floor(std::log10(step * 1.0000001))),
                        3, 6);
  return short_number(value, digits);
}

// A value of the data on its axis: whole numbers, such as of devices, as they are.
std::string position_label(double value) {
  constexpr double kLongest = 1e6;
  return std::abs(value) < kLongest && value == std::floor(value) ? fmt::format("{:.0f}", value) : short_number(value);
}

// Over the values that can be shown, with some room. From 0; of logarithms from below the least value, for bars from
// the power of ten below it.
Scale scale_of(const std::vector<double>& values, double from, double to, bool logarithmic, bool bars = false,
               bool close = false) {
  double low = logarithmic ? std::numeric_limits<double>::infinity() : 0, high = 0;
  for (double v : values) {
    if (!std::isfinite(v) || (logarithmic && v <= 0) || std::abs(v) > kHighest) continue;
    low = std::min(low, v), high = std::max(high, v);
  }
  if (!(high > 0)) low = logarithmic ? 1 : low, high = 1;
  if (close && !logarithmic && !values.empty()) {
    low = *std::min_element(values.begin(), values.end());
    double room = high > low ? 0.12 * (high - low) : 0.1 * high;
    return {std::max(0.0, low - room), high + room, from, to, false};
  }
  if (!logarithmic) return {low, std::min(high * 1.08, kHighest), from, to, false};
  if (low < kLeast) low = kLeast;
  return {bars ? std::pow(10, std::ceil(std::log10(low)) - 1) : low / 1.3, std::min(high * 1.3, kHighest), from, to,
          true};
}

std::vector<double> values_of(const Chart& chart, bool of_x) {
  std::vector<double> values;
  for (const ChartSeries& s : chart.series)
    for (const ChartPoint& p : s.points) {
      values.push_back(of_x ? p.x : p.y);
      if (!of_x) values.push_back(p.high);
    }
  return values;
}

std::string tip_of(const ChartSeries& s, const std::string& where, const ChartPoint& p) {
  std::string value = short_number(p.y) + (p.high > p.y ? " to " + short_number(p.high) : "");
  return fmt::format("{}{}{}: {}", s.name, s.name.empty() ? "" : ", ", where, value);
}

void draw_y_axis(Sheet& sheet, const Box& box, const Scale& y, const std::string& label) {
  const Scale::Ticks ticks = y.ticks();
  double longest = 0;
  for (double v : ticks.at) {
    const std::string text = tick_label(v, ticks.step);
    longest = std::max(longest, kLetter * static_cast<double>(text.size()));
    sheet.line(box.left, y.at(v), box.right, y.at(v), kGrid);
    sheet.text(box.left - 6, y.at(v) + 4, text, Anchor::end, 11);
  }
  sheet.line(box.left, box.top, box.left, box.bottom, kAxis);
  sheet.line(box.left, box.bottom, box.right, box.bottom, kAxis);
  sheet.text(box.left - std::clamp(longest + 12, 46.0, 58.0), (box.top + box.bottom) / 2, label, Anchor::middle, 11,
             -90);
}

void draw_lines(Sheet& sheet, const Box& box, const Chart& chart) {
  Scale x = scale_of(values_of(chart, true), box.left, box.right, chart.log_x, false, chart.close);
  Scale y = scale_of(values_of(chart, false), box.bottom, box.top, chart.log_y, false, chart.close);
  draw_y_axis(sheet, box, y, chart.y_label);
  // A few different positions, such as numbers of devices, are named as they are.
  std::set<double> positions;
  for (double v : values_of(chart, true))
    if (x.shows(v)) positions.insert(v);
  Scale::Ticks ticks = x.ticks();
  const bool named = chart.kind == Chart::Kind::lines && positions.size() <= 11;
  if (named) ticks.at.assign(positions.begin(), positions.end());
  constexpr double kApart = 6;
  double end = -std::numeric_limits<double>::infinity();
  for (double v : ticks.at) {
    const std::string label = named ? position_label(v) : tick_label(v, ticks.step);
    const double half = std::max(10.0, kLetter * static_cast<double>(label.size()) / 2);
    if (x.at(v) - half < end + kApart) continue;
    end = x.at(v) + half;
    sheet.line(x.at(v), box.bottom, x.at(v), box.bottom + 4, kAxis);
    sheet.text(x.at(v), box.bottom + 17, label, Anchor::middle, 11);
  }
  sheet.text((box.left + box.right) / 2, box.bottom + 36, chart.x_label, Anchor::middle, 11);
  for (const ChartSeries& s : chart.series) {
    std::vector<std::pair<double, double>> path;
    for (const ChartPoint& p : s.points) {
      if (!x.shows(p.x) || !y.shows(p.y)) continue;
      if (chart.kind == Chart::Kind::steps && !path.empty()) path.emplace_back(x.at(p.x), path.back().second);
      path.emplace_back(x.at(p.x), y.at(p.y));
      if (s.points.size() <= kMostMarks)
        sheet.circle(x.at(p.x), y.at(p.y), 3, ink_of(s),
                     tip_of(s, fmt::format("{} {}", chart.x_label, position_label(p.x)), p));
      if (p.high > p.y) sheet.line(x.at(p.x), y.at(p.y), x.at(p.x), y.at(p.high), ink_of(s));
    }
    if (chart.kind == Chart::Kind::steps && !path.empty()) path.emplace_back(box.right, path.back().second);
    if (path.size() > 1) sheet.polyline(path, ink_of(s));
  }
}

void draw_bars(Sheet& sheet, const Box& box, const Chart& chart) {
  Scale y = scale_of(values_of(chart, false), box.bottom, box.top, chart.log_y, true);
  draw_y_axis(sheet, box, y, chart.y_label);
  double slot = (box.right - box.left) / static_cast<double>(std::max<std::size_t>(1, chart.categories.size()));
  double bar = 0.8 * slot / static_cast<double>(std::max<std::size_t>(1, chart.series.size()));
  bool fits = std::all_of(chart.categories.begin(), chart.categories.end(),
                          [&](const std::string& name) { return 7 * static_cast<double>(name.size()) < slot; });
  for (std::size_t c = 0; c < chart.categories.size(); ++c) {
    double middle = box.left + (static_cast<double>(c) + 0.5) * slot;
    if (fits)
      sheet.text(middle, box.bottom + 16, chart.categories[c], Anchor::middle, 11);
    else
      sheet.text(middle, box.bottom + 14, chart.categories[c], Anchor::end, 11, -30);
  }
  sheet.text((box.left + box.right) / 2, box.bottom + 50, chart.x_label, Anchor::middle, 11);
  for (std::size_t i = 0; i < chart.series.size(); ++i)
    for (const ChartPoint& p : chart.series[i].points) {
      if (!y.shows(p.y) || !y.shows(p.high)) continue;
      double left = box.left + (p.x + 0.1) * slot + static_cast<double>(i) * bar, top = y.at(std::max(p.y, p.high));
      std::string tip = tip_of(chart.series[i], chart.categories.at(static_cast<std::size_t>(p.x)), p);
      sheet.rectangle(left, top, 0.92 * bar, box.bottom - top, ink_of(chart.series[i]), tip);
      if (p.high > p.y) sheet.line(left, y.at(p.y), left + 0.92 * bar, y.at(p.y), ink_of(chart.series[i]));
      if (bar >= 24) sheet.text(left + bar / 2, top - 3, short_number(p.high), Anchor::middle, 9);
    }
}

void draw_rows(Sheet& sheet, Box box, const Chart& chart) {
  box.left += 60;
  box.right -= 40;
  Scale x = scale_of(values_of(chart, false), box.left, box.right, chart.log_x, true);
  double slot = (box.bottom - box.top) / static_cast<double>(std::max<std::size_t>(1, chart.categories.size()));
  double bar = std::min(0.8 * slot, 22.0);
  for (std::size_t c = 0; c < chart.categories.size(); ++c)
    sheet.text(box.left - 6, box.top + (static_cast<double>(c) + 0.5) * slot + 4, chart.categories[c], Anchor::end, 11);
  for (const ChartSeries& s : chart.series)
    for (const ChartPoint& p : s.points) {
      double middle = box.top + (p.x + 0.5) * slot, end = x.shows(p.y) ? x.at(p.y) : box.left;
      sheet.rectangle(box.left, middle - bar / 2, std::max(0.0, end - box.left), bar, ink_of(s),
                      tip_of(s, chart.categories.at(static_cast<std::size_t>(p.x)), p));
      sheet.text(end + 4, middle + 4, short_number(p.y), Anchor::start, 11);
    }
  sheet.line(box.left, box.top, box.left, box.bottom, kAxis);
  sheet.text((box.left + box.right) / 2, box.bottom + 20, chart.x_label, Anchor::middle, 11);
}

}  // namespace

std::string short_number(double value, int digits) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  double size = std::abs(value);
  if (size >= 1e15) return fmt::format("{:.{}g}", value, digits);
  // As it is when rounded: 999.9 are 1000, 999,999 are 1M.
  const double rounded = std::strtod(fmt::format("{:.{}e}", size, digits - 1).c_str(), nullptr);
  for (auto [unit, name] : {std::pair{1e9, "G"}, std::pair{1e6, "M"}})
    if (rounded >= unit) return fmt::format("{:.{}g}{}", value / unit, digits, name);
  if (std::round(size) >= 1e4) return fmt::format("{:.{}g}k", value / 1e3, digits);
  if (rounded < 1000) return fmt::format("{:.{}g}", value, digits);
  return fmt::format("{:.{}f}", value, std::max(0, digits - 4));
}

double draw_legend(Sheet* sheet, const std::vector<Chart>& panels, double left, double top, double width) {
  std::set<std::string> named;
  double x = left, y = top;
  for (const Chart& chart : panels)
    for (const ChartSeries& s : chart.series) {
      if (s.name.empty() || !named.insert(s.name).second) continue;
      double needs = 34 + 6.6 * static_cast<double>(s.name.size());
      if (x + needs > left + width && x > left) x = left, y += kLegendLine;
      if (sheet) {
        sheet->rectangle(x, y, 12, 12, ink_of(s));
        sheet->text(x + 17, y + 10, s.name, Anchor::start, 11);
      }
      x += needs;
    }
  return named.empty() ? 0 : y + kLegendLine - top;
}

namespace {

std::size_t columns_of(std::size_t panels) {
  return panels == 4 ? 2 : std::clamp<std::size_t>(panels, 1, kPanelsInRow);
}

double panel_width(std::size_t panels) { return panels == 1 ? kOnlyPanelWidth : kPanelWidth; }

double page_width(const std::string& title, std::size_t panels) {
  return std::max(panel_width(panels) * static_cast<double>(columns_of(panels)),
                  32 + 8.6 * static_cast<double>(title.size()));
}

double page_head(const std::string& title, const std::vector<Chart>& panels) {
  return kTitle + draw_legend(nullptr, panels, kMargin, kTitle, page_width(title, panels.size()) - kMargin);
}

}  // namespace

void draw_chart(Sheet& sheet, const Chart& chart, const ChartBox& place) {
  double below = chart.kind == Chart::Kind::rows ? 40 : chart.kind == Chart::Kind::bars ? 66 : 46;
  Box box{place.left + 64, place.top + 30, place.right - 16, place.bottom - below};
  sheet.text((box.left + box.right) / 2, place.top + 18, chart.title, Anchor::middle, 13);
  if (chart.kind == Chart::Kind::bars)
    draw_bars(sheet, box, chart);
  else if (chart.kind == Chart::Kind::rows)
    draw_rows(sheet, box, chart);
  else
    draw_lines(sheet, box, chart);
}

std::pair<double, double> page_size(const std::string& title, const std::vector<Chart>& panels) {
  std::size_t columns = columns_of(panels.size()), rows = (panels.size() + columns - 1) / columns;
  return {page_width(title, panels.size()), page_head(title, panels) + kPanelHeight * static_cast<double>(rows)};
}

void draw_page(Sheet& sheet, const std::string& title, const std::vector<Chart>& panels) {
  double width = page_width(title, panels.size()), head = page_head(title, panels), panel = panel_width(panels.size());
  std::size_t columns = columns_of(panels.size());
  sheet.text(kMargin, 24, title, Anchor::start, 16);
  draw_legend(&sheet, panels, kMargin, kTitle, width - kMargin);
  for (std::size_t i = 0; i < panels.size(); ++i) {
    double left = panel * static_cast<double>(i % columns),
           top = head + kPanelHeight * static_cast<double>(i / columns);
    draw_chart(sheet, panels[i], {left, top, left + panel, top + kPanelHeight});
  }
}

std::string draw_charts(const std::string& title, const std::vector<Chart>& panels) {
  auto [width, height] = page_size(title, panels);
  Svg svg(width, height);
  draw_page(svg, title, panels);
  return svg.document();
}

}  // namespace unity::report
