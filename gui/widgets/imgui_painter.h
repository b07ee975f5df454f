// Drawings on the screen, through a view: position and zoom.
#pragma once

#include "gui/widgets/ui.h"

namespace unity::gui {

// Where a drawing stands on the screen: pixel = offset + scale * unit.
struct View {
  Point offset;
  float scale = 1;
  Point to_screen(Point p) const { return {offset.x + scale * p.x, offset.y + scale * p.y}; }
  Rect to_screen(const Rect& r) const {
    return {offset.x + scale * r.x, offset.y + scale * r.y, scale * r.w, scale * r.h};
  }
  Point to_drawing(Point p) const { return {(p.x - offset.x) / scale, (p.y - offset.y) / scale}; }
};

class ImGuiPainter : public Painter {
 public:
  // `clip`, in pixels: what of the window may be drawn on.
  ImGuiPainter(Ui& ui, ImDrawList& list, const View& view, const Rect& clip);
  float scale() const override { return view_.scale; }
  Rect visible() const override { return visible_; }
  void rect(const Rect& r, Color fill, float rounding) override;
  void ground(const Rect& r, Color fill) override;
  void frame(const Rect& r, Color color, float width, float rounding) override;
  void line(std::span<const Point> points, Color color, float width) override;
  void triangle(Point a, Point b, Point c, Color fill) override;
  void circle(Point center, float radius, Color fill) override;
  void text(Point at, std::string_view text, const TextStyle& style) override;
  void name(const Rect& r, std::string_view name, std::string_view description) override;

 private:
  void turned_text(Point around, const Rect& box, std::string_view text, const TextStyle& style, ImFont& font);

  Ui& ui_;
  ImDrawList& list_;
  View view_;
  Rect clip_, visible_;
};

}  // namespace unity::gui
