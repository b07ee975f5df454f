// Charts as SVG documents, in Okabe and Ito's colours, which most people tell apart.
#pragma once

#include <string>

#include "core/report/sheet.h"

namespace unity::report {

class Svg : public Sheet {
 public:
  Svg(double width, double height);
  void rectangle(double x, double y, double width, double height, const Ink& fill, std::string_view tip) override;
  void line(double x1, double y1, double x2, double y2, const Ink& ink) override;
  void polyline(const std::vector<std::pair<double, double>>& points, const Ink& ink) override;
  void circle(double x, double y, double radius, const Ink& fill, std::string_view tip) override;
  void text(double x, double y, std::string_view words, Anchor anchor, int size, double degrees) override;
  std::string document() const;

 private:
  double width_, height_;
  std::string body_;
};

}  // namespace unity::report
