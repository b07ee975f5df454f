// Points and rectangles of drawings, y downwards.
#pragma once

#include <algorithm>

namespace unity::gui {

struct Point {
  float x = 0, y = 0;
  bool operator==(const Point&) const = default;
};

struct Rect {
  float x = 0, y = 0, w = 0, h = 0;
  bool operator==(const Rect&) const = default;
  float right() const { return x + w; }
  float bottom() const { return y + h; }
  Point center() const { return {x + w / 2, y + h / 2}; }
  bool contains(Point p) const { return p.x >= x && p.x < right() && p.y >= y && p.y < bottom(); }
  bool meets(const Rect& o) const { return x < o.right() && o.x < right() && y < o.bottom() && o.y < bottom(); }
  Rect grown(float by) const { return {x - by, y - by, w + 2 * by, h + 2 * by}; }
};

// The smallest rectangle with both; an empty one adds nothing.
inline Rect unite(const Rect& a, const Rect& b) {
  if (a.w <= 0 && a.h <= 0) return b;
  if (b.w <= 0 && b.h <= 0) return a;
  float x = std::min(a.x, b.x), y = std::min(a.y, b.y);
  return {x, y, std::max(a.right(), b.right()) - x, std::max(a.bottom(), b.bottom()) - y};
}

inline Rect intersect(const Rect& a, const Rect& b) {
  float x = std::max(a.x, b.x), y = std::max(a.y, b.y);
  return {x, y, std::max(0.0f, std::min(a.right(), b.right()) - x),
          std::max(0.0f, std::min(a.bottom(), b.bottom()) - y)};
}

}  // namespace unity::gui
