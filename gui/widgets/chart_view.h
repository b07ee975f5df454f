// Charts (core/report/chart.h) in a window.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/report/chart.h"
#include "gui/widgets/imgui_painter.h"

namespace unity::gui {

// What a chart draws goes to a painter, in its theme's colours.
class PainterSheet : public report::Sheet {
 public:
  PainterSheet(Painter& painter, const Theme& theme) : painter_(painter), theme_(theme) {}
  void rectangle(double x, double y, double width, double height, const report::Ink& fill,
                 std::string_view tip) override;
  void line(double x1, double y1, double x2, double y2, const report::Ink& ink) override;
  void polyline(const std::vector<std::pair<double, double>>& points, const report::Ink& ink) override;
  void circle(double x, double y, double radius, const report::Ink& fill, std::string_view tip) override;
  void text(double x, double y, std::string_view words, Anchor anchor, int size, double degrees) override;

  // Points and bars with a tip, as drawn.
  struct Mark {
    Rect rect;
    std::string tip;
  };
  const std::vector<Mark>& marks() const { return marks_; }

 private:
  Color color(const report::Ink& ink) const;
  void mark(const Rect& rect, std::string_view tip);

  Painter& painter_;
  const Theme& theme_;
  std::vector<Mark> marks_;
};

// Charts in a grid that fills the area, each with a legend where it has several series. They are legible from that
// height on.
float least_height(const std::vector<report::Chart>& charts, std::size_t columns);
void draw_chart_grid(PainterSheet& sheet, const std::vector<report::Chart>& charts, std::size_t columns,
                     const Rect& area);

// The same as a widget in the current window; the mark that is clicked, by its number.
struct ChartClick {
  std::optional<std::size_t> mark;
};
ChartClick draw_charts(Ui& ui, std::string_view name, Point size, const std::vector<report::Chart>& charts,
                       std::size_t columns);

}  // namespace unity::gui
