#include "gui/widgets/imgui_painter.h"

#include <cmath>

#include <fmt/format.h>

namespace unity::gui {
namespace {

constexpr float kRoundFrom = 3;  // pixels of a corner's radius that one can see

}  // namespace

ImGuiPainter::ImGuiPainter(Ui& ui, ImDrawList& list, const View& view, const Rect& clip)
    : ui_(ui), list_(list), view_(view), clip_(clip) {
  Point low = view.to_drawing({clip.x, clip.y});
  visible_ = {low.x, low.y, clip.w / view.scale, clip.h / view.scale};
}

void ImGuiPainter::rect(const Rect& r, Color fill, float rounding) {
  Rect s = view_.to_screen(r);
  float radius = rounding * view_.scale;
  list_.AddRectFilled({s.x, s.y}, {s.right(), s.bottom()}, packed(fill), radius < kRoundFrom ? 0 : radius);
}

void ImGuiPainter::ground(const Rect& r, Color fill) {
  Rect seen = intersect(view_.to_screen(r), clip_);
  if (seen.w > 0 && seen.h > 0) ui_.ground(seen, fill);
}

void ImGuiPainter::frame(const Rect& r, Color color, float width, float rounding) {
  Rect s = view_.to_screen(r);
  float radius = rounding * view_.scale;
  list_.AddRect({s.x, s.y}, {s.right(), s.bottom()}, packed(color), radius < kRoundFrom ? 0 : radius, 0,
                width * ui_.fonts().scale());
}

void ImGuiPainter::line(std::span<const Point> points, Color color, float width) {
  float thick = width * ui_.fonts().scale();
  ImVec2 last = vec(view_.to_screen(points.front()));
  // Pieces that are shorter than a few pixels are left out.
  for (std::size_t i = 1; i < points.size(); ++i) {
    ImVec2 next = vec(view_.to_screen(points[i]));
    if (i + 1 < points.size() && std::abs(next.x - last.x) + std::abs(next.y - last.y) < 6) continue;
    Rect box = unite(rect_of(last, {last.x + 0.1f, last.y + 0.1f}), rect_of(next, {next.x + 0.1f, next.y + 0.1f}));
    if (box.grown(thick).meets(clip_)) list_.AddLine(last, next, packed(color), thick);
    last = next;
  }
}

void ImGuiPainter::triangle(Point a, Point b, Point c, Color fill) {
  list_.AddTriangleFilled(vec(view_.to_screen(a)), vec(view_.to_screen(b)), vec(view_.to_screen(c)), packed(fill));
}

void ImGuiPainter::circle(Point center, float radius, Color fill) {
  list_.AddCircleFilled(vec(view_.to_screen(center)), radius * view_.scale, packed(fill));
}

void ImGuiPainter::text(Point at, std::string_view text, const TextStyle& style) {
  ImFont* font = ui_.fonts().at(style.face, style.size * view_.scale);
  ImVec2 size = font->CalcTextSizeA(font->FontSize, FLT_MAX, 0, text.data(), text.data() + text.size());
  Point anchor = view_.to_screen(at), p = anchor;
  if (style.align == Align::center) p.x -= size.x / 2;
  if (style.align == Align::right) p.x -= size.x;
  Rect box{std::round(p.x), std::round(p.y - size.y / 2), size.x, size.y};
  if (style.degrees != 0) return turned_text(anchor, box, text, style, *font);
  Rect seen = intersect(box, clip_);
  if (seen.w <= 0 || seen.h <= 0) return;
  list_.AddText(font, font->FontSize, {box.x, box.y}, packed(style.color), text.data(), text.data() + text.size());
  // What the edge of a canvas cuts can be panned to.
  ui_.note(fmt::format("text {}", text), text, seen, seen, false);
}

// ImGui writes from left to right alone: the corners of the letters are turned.
void ImGuiPainter::turned_text(Point around, const Rect& box, std::string_view text, const TextStyle& style,
                               ImFont& font) {
  float angle = style.degrees * 3.14159265f / 180, c = std::cos(angle), s = std::sin(angle);
  auto turned = [&](Point p) {
    float x = p.x - around.x, y = p.y - around.y;
    return Point{around.x + c * x - s * y, around.y + s * x + c * y};
  };
  Rect place;
  for (Point corner :
       {Point{box.x, box.y}, Point{box.right(), box.y}, Point{box.x, box.bottom()}, Point{box.right(), box.bottom()}}) {
    Point p = turned(corner);
    place = unite(place, {p.x, p.y, 0.1f, 0.1f});
  }
  Rect seen = intersect(place, clip_);
  if (seen.w <= 0 || seen.h <= 0) return;
  // Letters outside of the clipping rectangle are left out: all have to be within, until they are turned.
  list_.PushClipRect({-1e5f, -1e5f}, {1e5f, 1e5f});
  int first = list_.VtxBuffer.Size;
  list_.AddText(&font, font.FontSize, {box.x, box.y}, packed(style.color), text.data(), text.data() + text.size());
  list_.PopClipRect();
  for (int v = first; v < list_.VtxBuffer.Size; ++v) {
    ImVec2& corner = list_.VtxBuffer[v].pos;
    corner = vec(turned({corner.x, corner.y}));
  }
  bool upright = std::abs(s) > 0.99f;
  ui_.note(fmt::format("text {}", text), text, seen, upright ? seen : Rect{}, false);
}

void ImGuiPainter::name(const Rect& r, std::string_view name, std::string_view description) {
  Rect seen = intersect(view_.to_screen(r), clip_);
  if (seen.w > 0 && seen.h > 0) ui_.note(name, description, seen, {}, false);
}

}  // namespace unity::gui
