#include "cli/svg.h"

#include <fmt/format.h>

namespace unity::cli {
namespace {

std::string escaped(std::string_view words) {
  std::string result;
  for (char c : words) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20)  // control characters are not allowed in XML
      result += c;
  }
  return result;
}

// The end of an element, with what a viewer shows under the mouse.
std::string end_of(std::string_view element, std::string_view tip) {
  return tip.empty() ? "/>\n" : fmt::format("><title>{}</title></{}>\n", escaped(tip), element);
}

}  // namespace

Svg::Svg(double width, double height) : width_(width), height_(height) {}

void Svg::rectangle(double x, double y, double width, double height, std::string_view look, std::string_view tip) {
  body_ += fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" {})", x, y, width, height, look) +
           end_of("rect", tip);
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view look) {
  body_ += fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" {}/>)", x1, y1, x2, y2, look) + "\n";
}

void Svg::polyline(const std::vector<std::pair<double, double>>& points, std::string_view look) {
  std::string list;
  for (auto [x, y] : points) list += fmt::format("{}{:.1f},{:.1f}", list.empty() ? "" : " ", x, y);
  body_ += fmt::format(R"(<polyline points="{}" fill="none" {}/>)", list, look) + "\n";
}

void Svg::circle(double x, double y, double radius, std::string_view look, std::string_view tip) {
  body_ += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="{:.1f}" {})", x, y, radius, look) + end_of("circle", tip);
}

void Svg::text(double x, double y, std::string_view words, Anchor anchor, int size, double degrees) {
  constexpr const char* kAnchors[] = {"start", "middle", "end"};
  std::string turn;
  if (degrees != 0) turn = fmt::format(R"x( transform="rotate({:.0f} {:.1f} {:.1f})")x", degrees, x, y);
  body_ += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" font-size="{}" text-anchor="{}"{}>{}</text>)", x, y, size,
                       kAnchors[static_cast<int>(anchor)], turn, escaped(words)) +
           "\n";
}

std::string Svg::document() const {
  return fmt::format(
             R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}" font-family="sans-serif">)",
             width_, height_) +
         "\n" + R"(<rect width="100%" height="100%" fill="#ffffff"/>)" + "\n" + body_ + "</svg>\n";
}

}  // namespace unity::cli
