#include "gui/widgets/theme.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace unity::gui {

Color rgb(std::uint32_t hex) {
  return {static_cast<std::uint8_t>(hex >> 16), static_cast<std::uint8_t>(hex >> 8), static_cast<std::uint8_t>(hex)};
}

Color blend(Color a, Color b, float t) {
  auto mix = [t](std::uint8_t x, std::uint8_t y) {
    return static_cast<std::uint8_t>(static_cast<float>(x) + (static_cast<float>(y) - static_cast<float>(x)) * t +
                                     0.5f);
  };
  return {mix(a.r, b.r), mix(a.g, b.g), mix(a.b, b.b), mix(a.a, b.a)};
}

std::string css(Color color) { return fmt::format("#{:02x}{:02x}{:02x}", color.r, color.g, color.b); }

Color readable_on(Color background) {
  double light = 0.299 * background.r + 0.587 * background.g + 0.114 * background.b;
  return light > 140 ? rgb(0x111418) : rgb(0xffffff);
}

Color Theme::category(int index) const {
  static constexpr std::array<std::uint32_t, 8> kLight = {0x0072b2, 0xe69f00, 0x009e73, 0xcc79a7,
                                                          0x56b4e9, 0xd55e00, 0x8a8f98, 0xb8a800};
  static constexpr std::array<std::uint32_t, 8> kDark = {0x3d9bdb, 0xf0b02e, 0x1fbf92, 0xdd95bd,
                                                         0x7cc8f2, 0xee7f33, 0x9aa1ab, 0xe6d935};
  return rgb((dark ? kDark : kLight)[static_cast<std::size_t>(index) % kLight.size()]);
}

Color Theme::ramp(double fraction) const {
  // Points of viridis; in the light theme it runs from light to dark, so that much always stands out from the ground.
  static constexpr std::array<std::uint32_t, 6> kPoints = {0x440154, 0x414487, 0x2a788e, 0x22a884, 0x7ad151, 0xfde725};
  double at = std::clamp(dark ? 0.12 + 0.88 * fraction : 1 - fraction, 0.0, 1.0) * (kPoints.size() - 1);
  auto i = std::min(static_cast<std::size_t>(at), kPoints.size() - 2);
  return blend(rgb(kPoints[i]), rgb(kPoints[i + 1]), static_cast<float>(at - static_cast<double>(i)));
}

Theme make_theme(bool dark) {
  Theme t;
  t.dark = dark;
  if (dark) {
    t.window = rgb(0x16191d), t.panel = rgb(0x1d2126), t.raised = rgb(0x2a3038), t.border = rgb(0x39414b);
    t.text = rgb(0xe6e9ed), t.dim = rgb(0xa0a8b3), t.accent = rgb(0x4aa8e8), t.selected = rgb(0xffb13d);
    t.warning = rgb(0xf0b02e), t.error = rgb(0xff6b5e), t.good = rgb(0x2fc79a);
    t.canvas = rgb(0x14171a), t.grid = rgb(0x20252b), t.node = rgb(0x262c34), t.node_border = rgb(0x48525e);
    t.group = rgb(0x1b2026), t.edge = rgb(0x717c89);
  } else {
    t.window = rgb(0xe9ecf0), t.panel = rgb(0xf7f8fa), t.raised = rgb(0xffffff), t.border = rgb(0xc9cfd6);
    t.text = rgb(0x1b2026), t.dim = rgb(0x5a6470), t.accent = rgb(0x0a6cb0), t.selected = rgb(0xd95f02);
    t.warning = rgb(0x9a6700), t.error = rgb(0xc0261c), t.good = rgb(0x00795a);
    t.canvas = rgb(0xfdfdfe), t.grid = rgb(0xeef0f3), t.node = rgb(0xffffff), t.node_border = rgb(0xaeb7c1);
    t.group = rgb(0xf2f4f7), t.edge = rgb(0x8b95a1);
  }
  return t;
}

}  // namespace unity::gui
