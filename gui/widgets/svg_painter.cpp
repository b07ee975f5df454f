#include "gui/widgets/svg_painter.h"

#include <fmt/format.h>

#include "core/base/xml.h"

namespace unity::gui {
namespace {

std::string paint(const char* what, Color color) {
  std::string text = fmt::format("{}=\"{}\"", what, css(color));
  if (color.a != 255) text += fmt::format(" {}-opacity=\"{:.2f}\"", what, color.a / 255.0);
  return text;
}

}  // namespace

SvgPainter::SvgPainter(const Rect& bounds, Color background) : bounds_(bounds) { rect(bounds, background, 0); }

void SvgPainter::rect(const Rect& r, Color fill, float rounding) {
  body_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"{:.1f}\" {}/>\n", r.x,
                       r.y, r.w, r.h, rounding, paint("fill", fill));
}

void SvgPainter::frame(const Rect& r, Color color, float width, float rounding) {
  body_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"{:.1f}\" fill=\"none\" {} "
      "stroke-width=\"{:.1f}\"/>\n",
      r.x, r.y, r.w, r.h, rounding, paint("stroke", color), width);
}

void SvgPainter::line(std::span<const Point> points, Color color, float width) {
  std::string list;
  for (Point p : points) list += fmt::format("{:.1f},{:.1f} ", p.x, p.y);
  body_ += fmt::format("<polyline points=\"{}\" fill=\"none\" {} stroke-width=\"{:.1f}\"/>\n", list,
                       paint("stroke", color), width);
}

void SvgPainter::triangle(Point a, Point b, Point c, Color fill) {
  body_ += fmt::format("<polygon points=\"{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}\" {}/>\n", a.x, a.y, b.x, b.y, c.x,
                       c.y, paint("fill", fill));
}

void SvgPainter::circle(Point center, float radius, Color fill) {
  body_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" {}/>\n", center.x, center.y, radius,
                       paint("fill", fill));
}

void SvgPainter::text(Point at, std::string_view text, const TextStyle& style) {
  static constexpr const char* kAnchors[] = {"start", "middle", "end"};
  body_ += fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:.1f}\" text-anchor=\"{}\" dominant-baseline=\"central\" "
      "font-family=\"{}\"{}{} {}>{}</text>\n",
      at.x, at.y, style.size, kAnchors[static_cast<int>(style.align)],
      style.face == Face::mono ? "JetBrains Mono, monospace" : "Roboto, sans-serif",
      style.face == Face::strong ? " font-weight=\"500\"" : "",
      style.degrees == 0 ? std::string()
                         : fmt::format(" transform=\"rotate({:.0f} {:.1f} {:.1f})\"", style.degrees, at.x, at.y),
      paint("fill", style.color), xml_escaped(text));
}

void SvgPainter::name(const Rect& r, std::string_view, std::string_view description) {
  // An invisible shape on top carries the tooltip.
  body_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
      "fill-opacity=\"0\"><title>{}</title></rect>\n",
      r.x, r.y, r.w, r.h, xml_escaped(description));
}

std::string SvgPainter::document() const {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{2:.0f}\" height=\"{3:.0f}\" viewBox=\"{0:.1f} {1:.1f} "
             "{2:.1f} {3:.1f}\">\n",
             bounds_.x, bounds_.y, bounds_.w, bounds_.h) +
         body_ + "</svg>\n";
}

}  // namespace unity::gui
