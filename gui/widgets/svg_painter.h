// Drawings as SVG, in full detail.
#pragma once

#include "gui/widgets/painter.h"

namespace unity::gui {

class SvgPainter : public Painter {
 public:
  SvgPainter(const Rect& bounds, Color background);
  float scale() const override { return 1; }
  Rect visible() const override { return bounds_; }
  void rect(const Rect& r, Color fill, float rounding) override;
  void frame(const Rect& r, Color color, float width, float rounding) override;
  void line(std::span<const Point> points, Color color, float width) override;
  void triangle(Point a, Point b, Point c, Color fill) override;
  void circle(Point center, float radius, Color fill) override;
  void text(Point at, std::string_view text, const TextStyle& style) override;
  void name(const Rect& r, std::string_view name, std::string_view description) override;
  std::string document() const;

 private:
  Rect bounds_;
  std::string body_;
};

}  // namespace unity::gui
