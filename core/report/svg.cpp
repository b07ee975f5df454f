#include "core/report/svg.h"

#include <array>

#include <fmt/format.h>

#include "core/base/xml.h"

namespace unity::report {
namespace {

constexpr std::array<const char*, 8> kColors = {"#0072B2", "#E69F00", "#009E73", "#D55E00",
                                                "#CC79A7", "#56B4E9", "#8a6d00", "#444444"};

const char* color(const Ink& ink) {
  if (ink.role == Ink::Role::text) return "#000000";
  if (ink.role == Ink::Role::axis) return "#444444";
  if (ink.role == Ink::Role::grid) return "#dddddd";
  return kColors[static_cast<std::size_t>(ink.series) % kColors.size()];
}

// What a page that holds the drawing may colour otherwise, in the dark: "axis", "f0" for a fill, "k0" for a stroke.
std::string class_of(const Ink& ink, bool fill) {
  if (ink.role == Ink::Role::axis) return R"( class="axis")";
  if (ink.role == Ink::Role::grid) return R"( class="grid")";
  if (ink.role == Ink::Role::text) return {};
  return fmt::format(R"( class="{}{}")", fill ? 'f' : 'k', static_cast<std::size_t>(ink.series) % kColors.size());
}

std::string fill_of(const Ink& ink) {
  return (ink.dashed ? fmt::format(R"(fill="none" stroke="{}" stroke-dasharray="4 2")", color(ink))
                     : fmt::format(R"(fill="{}")", color(ink))) +
         class_of(ink, !ink.dashed);
}

std::string stroke_of(const Ink& ink) {
  return fmt::format(R"(stroke="{}" stroke-width="{}"{})", color(ink), ink.role == Ink::Role::series ? 2 : 1,
                     ink.dashed ? R"( stroke-dasharray="5 3")" : "") +
         class_of(ink, false);
}

// The end of an element, with what a viewer shows under the mouse.
std::string end_of(std::string_view element, std::string_view tip) {
  return tip.empty() ? "/>\n" : fmt::format("><title>{}</title></{}>\n", xml_escaped(tip), element);
}

}  // namespace

Svg::Svg(double width, double height) : width_(width), height_(height) {}

void Svg::rectangle(double x, double y, double width, double height, const Ink& fill, std::string_view tip) {
  body_ += fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" {})", x, y, width, height,
                       fill_of(fill)) +
           end_of("rect", tip);
}

void Svg::line(double x1, double y1, double x2, double y2, const Ink& ink) {
  body_ +=
      fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" {}/>)", x1, y1, x2, y2, stroke_of(ink)) +
      "\n";
}

void Svg::polyline(const std::vector<std::pair<double, double>>& points, const Ink& ink) {
  std::string list;
  for (auto [x, y] : points) list += fmt::format("{}{:.1f},{:.1f}", list.empty() ? "" : " ", x, y);
  body_ += fmt::format(R"(<polyline points="{}" fill="none" {}/>)", list, stroke_of(ink)) + "\n";
}

void Svg::circle(double x, double y, double radius, const Ink& fill, std::string_view tip) {
  body_ += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="{:.1f}" {})", x, y, radius, fill_of(fill)) +
           end_of("circle", tip);
}

void Svg::text(double x, double y, std::string_view words, Anchor anchor, int size, double degrees) {
  constexpr const char* kAnchors[] = {"start", "middle", "end"};
  std::string turn;
  if (degrees != 0) turn = fmt::format(R"x( transform="rotate({:.0f} {:.1f} {:.1f})")x", degrees, x, y);
  body_ += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" font-size="{}" text-anchor="{}"{}>{}</text>)", x, y, size,
                       kAnchors[static_cast<int>(anchor)], turn, xml_escaped(words)) +
           "\n";
}

std::string Svg::document() const {
  return fmt::format(
             R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}" font-family="sans-serif">)",
             width_, height_) +
         "\n" + R"(<rect class="page" width="100%" height="100%" fill="#ffffff"/>)" + "\n" + body_ + "</svg>\n";
}

}  // namespace unity::report
