// What drawings are made with: on the screen (imgui_painter.h) and in files (svg_painter.h) alike. Coordinates are
// those of the drawing; widths of lines and the scale say pixels.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "gui/layout/geometry.h"
#include "gui/widgets/theme.h"

namespace unity::gui {

enum class Face : std::uint8_t { text, strong, mono };
enum class Align : std::uint8_t { left, center, right };

// How wide texts are, without a window. Of ASCII; other letters count as a wide one.
struct TextMetrics {
  std::array<std::array<float, 128>, 3> advance;  // by face and letter, in units of the size
  TextMetrics();                                  // a guess from above
  float width(std::string_view text, float size, Face face = Face::text) const;
};
// The text, or its beginning and end around an ellipsis.
std::string elide(const TextMetrics& metrics, std::string_view text, float size, Face face, float width);

struct TextStyle {
  float size = 13;
  Color color;
  Face face = Face::text;
  Align align = Align::left;
  float degrees = 0;  // clockwise, around `at`
};

class Painter {
 public:
  virtual ~Painter() = default;
  virtual float scale() const = 0;   // pixels per unit
  virtual Rect visible() const = 0;  // what lies outside need not be drawn
  virtual void rect(const Rect& r, Color fill, float rounding = 0) = 0;
  // A large area below everything else, in opaque colour; later ones cover earlier ones. Cheap on the screen, where
  // filling is what software rendering takes its time for.
  virtual void ground(const Rect& r, Color fill) { rect(r, fill, 0); }
  virtual void frame(const Rect& r, Color color, float width = 1, float rounding = 0) = 0;
  virtual void line(std::span<const Point> points, Color color, float width = 1) = 0;
  virtual void triangle(Point a, Point b, Point c, Color fill) = 0;
  virtual void circle(Point center, float radius, Color fill) = 0;
  // `at`: the left end, middle or right end of the text, at half its height.
  virtual void text(Point at, std::string_view text, const TextStyle& style) = 0;
  // What the drawing shows here, for scripts, tests and readers of SVG.
  virtual void name(const Rect& r, std::string_view name, std::string_view description) = 0;

  // Whether a text of this size can be read here.
  bool legible(float size) const { return size * scale() >= 6.5f; }
  bool shows(const Rect& r) const { return visible().meets(r); }
  void segment(Point a, Point b, Color color, float width = 1) {
    Point points[] = {a, b};
    line(points, color, width);
  }
};

}  // namespace unity::gui
