#include "gui/widgets/chart_view.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace unity::gui {
namespace {

using report::Ink;

constexpr float kDash = 6, kNear = 8, kLeastHeight = 165, kRowsFrame = 72, kRowHeight = 14, kLegend = 20;

Point point(double x, double y) { return {static_cast<float>(x), static_cast<float>(y)}; }

}  // namespace

Color PainterSheet::color(const Ink& ink) const {
  switch (ink.role) {
    case Ink::Role::text:
      return theme_.text;
    case Ink::Role::axis:
      return theme_.dim;
    case Ink::Role::grid:
      return theme_.border;
    case Ink::Role::series:
      break;
  }
  return theme_.category(ink.series);
}

void PainterSheet::mark(const Rect& rect, std::string_view tip) {
  if (tip.empty()) return;
  painter_.name(rect, fmt::format("mark {}", marks_.size()), tip);
  marks_.push_back({rect, std::string(tip)});
}

void PainterSheet::rectangle(double x, double y, double width, double height, const Ink& fill, std::string_view tip) {
  Rect rect{static_cast<float>(x), static_cast<float>(y), static_cast<float>(width), static_cast<float>(height)};
  if (fill.dashed)
    painter_.frame(rect, color(fill), 1.5f);
  else
    painter_.rect(rect, color(fill));
  mark(rect, tip);
}

void PainterSheet::line(double x1, double y1, double x2, double y2, const Ink& ink) {
  polyline({{x1, y1}, {x2, y2}}, ink);
}

void PainterSheet::polyline(const std::vector<std::pair<double, double>>& points, const Ink& ink) {
  float width = ink.role == Ink::Role::series ? 2 : 1;
  std::vector<Point> path;
  for (auto [x, y] : points) path.push_back(point(x, y));
  // Piece by piece: on the screen, lines leave out what is shorter than a few pixels, and steps would be slopes.
  for (std::size_t i = 1; i < path.size() && !ink.dashed; ++i)
    painter_.segment(path[i - 1], path[i], color(ink), width);
  if (!ink.dashed) return;
  for (std::size_t i = 1; i < path.size(); ++i) {
    Point a = path[i - 1], b = path[i];
    float length = std::hypot(b.x - a.x, b.y - a.y);
    for (float at = 0; at < length; at += 2 * kDash) {
      float end = std::min(at + kDash, length);
      painter_.segment({a.x + (b.x - a.x) * at / length, a.y + (b.y - a.y) * at / length},
                       {a.x + (b.x - a.x) * end / length, a.y + (b.y - a.y) * end / length}, color(ink), width);
    }
  }
}

void PainterSheet::circle(double x, double y, double radius, const Ink& fill, std::string_view tip) {
  auto r = static_cast<float>(radius);
  painter_.circle(point(x, y), r, color(fill));
  if (fill.dashed) painter_.circle(point(x, y), r * 0.5f, theme_.canvas);
  mark({static_cast<float>(x) - r, static_cast<float>(y) - r, 2 * r, 2 * r}, tip);
}

void PainterSheet::text(double x, double y, std::string_view words, Anchor anchor, int size, double degrees) {
  TextStyle style{static_cast<float>(size), theme_.text, Face::text, static_cast<Align>(anchor),
                  static_cast<float>(degrees)};
  // Painters want the middle of the letters' height.
  double up = 0.35 * size, angle = degrees * 3.14159265 / 180;
  painter_.text(point(x + up * std::sin(angle), y - up * std::cos(angle)), words, style);
}

namespace {

bool needs_legend(const report::Chart& chart) {
  return std::count_if(chart.series.begin(), chart.series.end(), [](const auto& s) { return !s.name.empty(); }) > 1;
}

// Of a chart, to be readable.
float least_height(const report::Chart& chart) {
  if (chart.kind != report::Chart::Kind::rows) return kLeastHeight;
  return kRowsFrame + kRowHeight * static_cast<float>(chart.categories.size()) + (needs_legend(chart) ? kLegend : 0);
}

std::vector<float> row_heights(const std::vector<report::Chart>& charts, std::size_t columns) {
  std::vector<float> heights((charts.size() + columns - 1) / columns, 0);
  for (std::size_t i = 0; i < charts.size(); ++i)
    heights[i / columns] = std::max(heights[i / columns], least_height(charts[i]));
  return heights;
}

}  // namespace

float least_height(const std::vector<report::Chart>& charts, std::size_t columns) {
  float sum = 0;
  for (float height : row_heights(charts, columns)) sum += height;
  return sum;
}

void draw_chart_grid(PainterSheet& sheet, const std::vector<report::Chart>& charts, std::size_t columns,
                     const Rect& area) {
  if (charts.empty()) return;
  columns = std::clamp<std::size_t>(columns, 1, charts.size());
  std::vector<float> heights = row_heights(charts, columns);
  float more = area.h / least_height(charts, columns), w = area.w / static_cast<float>(columns), y = area.y;
  for (std::size_t i = 0; i < charts.size(); ++i) {
    if (i > 0 && i % columns == 0) y += more * heights[i / columns - 1];
    double left = area.x + w * static_cast<float>(i % columns), bottom = y + more * heights[i / columns];
    if (needs_legend(charts[i])) {
      double legend = report::draw_legend(nullptr, {charts[i]}, left + 16, y, w - 20);
      report::draw_legend(&sheet, {charts[i]}, left + 16, bottom - legend, w - 20);
      bottom -= legend;
    }
    report::draw_chart(sheet, charts[i], {left, y, left + w, bottom});
  }
}

ChartClick draw_charts(Ui& ui, std::string_view name, Point size, const std::vector<report::Chart>& charts,
                       std::size_t columns) {
  ImVec2 corner = ImGui::GetCursorScreenPos();
  Rect area{corner.x, corner.y, std::max(size.x, 8.0f), std::max(size.y, 8.0f)};
  bool clicked = ImGui::InvisibleButton(("##charts " + std::string(name)).c_str(), {area.w, area.h});
  bool hovered = ImGui::IsItemHovered();
  // What is scrolled out is not drawn, and does not cover what is there.
  Rect seen = intersect(area, clip_rect());
  ui.note("charts " + std::string(name), "", seen, {}, false);
  if (seen.w > 0 && seen.h > 0) ui.ground(seen, ui.theme().canvas);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.PushClipRect({area.x, area.y}, {area.right(), area.bottom()}, true);
  float scale = ui.fonts().scale();
  View view{{area.x, area.y}, scale};
  ImGuiPainter painter(ui, list, view, seen);
  PainterSheet sheet(painter, ui.theme());
  draw_chart_grid(sheet, charts, columns, {0, 0, area.w / scale, area.h / scale});
  list.PopClipRect();
  ChartClick click;
  if (!hovered && !clicked) return click;
  const ImGuiIO& io = ImGui::GetIO();
  Point at = view.to_drawing({io.MousePos.x, io.MousePos.y});
  float nearest = kNear;
  for (std::size_t m = 0; m < sheet.marks().size(); ++m) {
    const Rect& r = sheet.marks()[m].rect;
    float dx = std::max({r.x - at.x, 0.0f, at.x - r.right()}), dy = std::max({r.y - at.y, 0.0f, at.y - r.bottom()});
    float far = std::hypot(dx, dy);
    if (far >= nearest) continue;
    nearest = far;
    click.mark = m;
  }
  if (click.mark) ui.tooltip(sheet.marks()[*click.mark].tip);
  if (!clicked) click.mark.reset();
  return click;
}

}  // namespace unity::gui
