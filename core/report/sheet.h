// What charts are drawn on: an SVG document (svg.h), or a window. Pixels, from the top left corner.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace unity::report {

// What a shape is, not its colour: a window has light and dark ones.
struct Ink {
  enum class Role : std::uint8_t { text, axis, grid, series };
  Role role = Role::axis;
  int series = 0;  // its number among those of a chart
  bool dashed = false;
};

class Sheet {
 public:
  enum class Anchor { start, middle, end };

  virtual ~Sheet() = default;
  // `tip`: what a viewer shows under the mouse.
  virtual void rectangle(double x, double y, double width, double height, const Ink& fill,
                         std::string_view tip = {}) = 0;  // outlined where the ink is dashed
  virtual void line(double x1, double y1, double x2, double y2, const Ink& ink) = 0;
  virtual void polyline(const std::vector<std::pair<double, double>>& points, const Ink& ink) = 0;
  virtual void circle(double x, double y, double radius, const Ink& fill, std::string_view tip = {}) = 0;
  // At the text's base line. `degrees`: 0, -30 or -90.
  virtual void text(double x, double y, std::string_view words, Anchor anchor = Anchor::start, int size = 12,
                    double degrees = 0) = 0;
};

}  // namespace unity::report
