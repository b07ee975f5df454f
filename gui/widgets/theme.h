// Colours. Categories are those of Okabe and Ito (2008), which people with any common colour blindness tell apart;
// amounts are a ramp of rising lightness (after viridis), readable in grey as well.
#pragma once

#include <cstdint>
#include <string>

namespace unity::gui {

struct Color {
  std::uint8_t r = 0, g = 0, b = 0, a = 255;
  bool operator==(const Color&) const = default;
  Color with_alpha(float alpha) const { return {r, g, b, static_cast<std::uint8_t>(alpha * 255.0f + 0.5f)}; }
};
Color rgb(std::uint32_t hex);
Color blend(Color a, Color b, float t);  // a at 0, b at 1
std::string css(Color color);            // "#1a2b3c", without alpha
Color readable_on(Color background);     // black or white

struct Theme {
  bool dark = false;
  Color window, panel, raised, border;  // of the frame of everything
  Color text, dim, accent, selected, warning, error, good;
  Color canvas, grid, node, node_border, group, edge;

  Color category(int index) const;    // repeats after 8
  Color ramp(double fraction) const;  // 0..1
};
Theme make_theme(bool dark);

}  // namespace unity::gui
