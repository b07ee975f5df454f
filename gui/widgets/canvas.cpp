#include "gui/widgets/canvas.h"

#include <algorithm>
#include <cmath>

namespace unity::gui {
namespace {

constexpr float kMargin = 16, kMinimap = 150, kMostOfArea = 0.3f, kWheel = 1.15f, kLeastScale = 0.02f, kMostScale = 6;

}  // namespace

void Canvas::fit_into(const Rect& area, const Rect& bounds, float pixels_per_unit) {
  if (bounds.w <= 0 || bounds.h <= 0) return;
  float scale = std::min((area.w - 2 * kMargin) / bounds.w, (area.h - 2 * kMargin) / bounds.h);
  view_.scale = std::clamp(scale, std::max(kLeastScale, least_ * pixels_per_unit),
                           std::max(most_scale, least_) * pixels_per_unit);
  view_.offset = {area.x + (area.w - bounds.w * view_.scale) / 2 - bounds.x * view_.scale,
                  area.y + std::max(kMargin, (area.h - bounds.h * view_.scale) / 2) - bounds.y * view_.scale};
}

Canvas::Input Canvas::draw(Ui& ui, std::string_view name, Point size, const Rect& bounds,
                           const std::function<void(Painter&)>& paint, const std::function<void(Painter&)>& overview) {
  ImVec2 corner = ImGui::GetCursorScreenPos();
  Rect area{corner.x, corner.y, std::max(size.x, 8.0f), std::max(size.y, 8.0f)};
  ImGui::InvisibleButton(("##canvas " + std::string(name)).c_str(), {area.w, area.h});
  ui.note(std::string("canvas ") + std::string(name), "", area, {}, false);
  if (fit_ || (follows_ && !(fitted_ == Point{area.w, area.h}))) fit_into(area, bounds, ui.fonts().scale());
  fit_ = false;
  fitted_ = {area.w, area.h};
  const ImGuiIO& io = ImGui::GetIO();
  Point mouse{io.MousePos.x, io.MousePos.y};
  bool hovered = ImGui::IsItemHovered(), held = ImGui::IsItemActive();
  auto zoom_at = [&](Point at, float factor) {
    Point fixed = view_.to_drawing(at);
    view_.scale = std::clamp(view_.scale * factor, kLeastScale, kMostScale);
    view_.offset = {at.x - fixed.x * view_.scale, at.y - fixed.y * view_.scale};
  };
  if ((hovered && io.MouseWheel != 0) || zoom_ != 1 || (held && ImGui::IsMouseDragging(0, 4)) || !(pan_ == Point{}) ||
      show_)
    follows_ = false;
  if (hovered && io.MouseWheel != 0) zoom_at(mouse, std::pow(kWheel, io.MouseWheel));
  if (zoom_ != 1) zoom_at(area.center(), zoom_);
  zoom_ = 1;
  if (held && ImGui::IsMouseDragging(0, 4)) {
    view_.offset.x += io.MouseDelta.x, view_.offset.y += io.MouseDelta.y;
    dragged_ = true;
  }
  view_.offset.x += pan_.x, view_.offset.y += pan_.y;
  pan_ = {};
  if (show_) {
    if (show_->w * view_.scale > area.w || view_.scale < 0.5f)
      view_.scale = std::clamp(std::min(area.w / (show_->w * 2), 1.0f), kLeastScale, kMostScale);
    Point middle = show_->center();
    view_.offset = {area.center().x - middle.x * view_.scale, area.center().y - middle.y * view_.scale};
    show_.reset();
  }

  Input input;
  if (hovered) input.hovered = view_.to_drawing(mouse);
  if (ImGui::IsItemDeactivated()) {
    if (!dragged_ && hovered) input.clicked = input.hovered;
    dragged_ = false;
  }
  if (hovered && ImGui::IsMouseDoubleClicked(0)) input.double_clicked = input.hovered;

  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.PushClipRect({area.x, area.y}, {area.right(), area.bottom()}, true);
  Rect shown = clip_rect();  // of the area, where a panel scrolls
  ui.ground(shown, ui.theme().canvas);
  ImGuiPainter painter(ui, list, view_, shown);
  paint(painter);

  Rect seen = painter.visible();
  bool all =
      seen.x <= bounds.x && seen.y <= bounds.y && seen.right() >= bounds.right() && seen.bottom() >= bounds.bottom();
  if (overview && !all && bounds.w > 0 && bounds.h > 0) {
    float side = std::min(ui.unit(kMinimap), kMostOfArea * std::min(area.w, area.h));
    float scale = std::min(side / bounds.w, side / bounds.h);
    float w = std::max(bounds.w * scale, ui.unit(16)), h = std::max(bounds.h * scale, ui.unit(16));
    Rect map{area.right() - w - ui.unit(10), area.bottom() - h - ui.unit(10), w, h};
    View small{
        {map.x + (w - bounds.w * scale) / 2 - bounds.x * scale, map.y + (h - bounds.h * scale) / 2 - bounds.y * scale},
        scale};
    list.AddRectFilled({map.x - 4, map.y - 4}, {map.right() + 4, map.bottom() + 4},
                       packed(ui.theme().panel.with_alpha(0.92f)), 4);
    list.AddRect({map.x - 4, map.y - 4}, {map.right() + 4, map.bottom() + 4}, packed(ui.theme().border), 4);
    ImGuiPainter mini(ui, list, small, map);
    overview(mini);
    Rect window = intersect(small.to_screen(seen), map);
    list.AddRect({window.x, window.y}, {window.right(), window.bottom()}, packed(ui.theme().accent), 0, 0, 1.5f);
    if (hovered && map.contains(mouse)) {
      input = {};
      if (held) {
        Point to = small.to_drawing(mouse);
        view_.offset = {area.center().x - to.x * view_.scale, area.center().y - to.y * view_.scale};
        dragged_ = true;
      }
    }
  }
  list.PopClipRect();
  return input;
}

}  // namespace unity::gui
