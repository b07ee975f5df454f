// A small writer of SVG: shapes and texts in pixels, from the top left corner.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace unity::cli {

class Svg {
 public:
  enum class Anchor { start, middle, end };

  Svg(double width, double height);
  // `look` is what the shape's attributes say, as in R"(fill="none" stroke="#000")".
  void rectangle(double x, double y, double width, double height, std::string_view look, std::string_view tip = {});
  void line(double x1, double y1, double x2, double y2, std::string_view look);
  void polyline(const std::vector<std::pair<double, double>>& points, std::string_view look);
  void circle(double x, double y, double radius, std::string_view look, std::string_view tip = {});
  void text(double x, double y, std::string_view words, Anchor anchor = Anchor::start, int size = 12,
            double degrees = 0);
  std::string document() const;

 private:
  double width_, height_;
  std::string body_;
};

}  // namespace unity::cli
