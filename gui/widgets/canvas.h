// A pane that shows a drawing: drag or scroll to pan, wheel to zoom to the cursor, a minimap when not all is seen.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "gui/widgets/imgui_painter.h"

namespace unity::gui {

class Canvas {
 public:
  // Once a frame, in the current ImGui window. `paint` draws; the minimap shows what `overview` draws. Clicks that are
  // no drags are in the result, in coordinates of the drawing.
  struct Input {
    std::optional<Point> hovered, clicked, double_clicked;
  };
  Input draw(Ui& ui, std::string_view name, Point size, const Rect& bounds, const std::function<void(Painter&)>& paint,
             const std::function<void(Painter&)>& overview = {});

  // Shows all; again when the pane changes its size, until the user pans or zooms.
  void fit() {
    fit_ = follows_ = true;
    least_ = 0;
  }
  // The same, but no smaller than this: then its top is seen.
  void fit_legibly(float least) {
    fit_ = follows_ = true;
    least_ = least;
  }
  // Moves so that this is seen, with some of its surroundings.
  void show(const Rect& r) { show_ = r; }
  void zoom(float factor) { zoom_ *= factor; }
  void pan(Point pixels) { pan_ = {pan_.x + pixels.x, pan_.y + pixels.y}; }
  const View& view() const { return view_; }
  float most_scale = 1.4f;  // with which fit() shows small drawings

 private:
  void fit_into(const Rect& area, const Rect& bounds, float pixels_per_unit);

  View view_;
  bool fit_ = true, follows_ = true, dragged_ = false;
  Point fitted_;  // size of the pane that it was fitted to
  std::optional<Rect> show_;
  float zoom_ = 1, least_ = 0;
  Point pan_;
};

}  // namespace unity::gui
