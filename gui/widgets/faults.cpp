#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "gui/widgets/ui.h"

namespace unity::gui {
namespace {

nlohmann::ordered_json json_of(const Rect& r) {
  auto round = [](float x) { return std::round(x * 10) / 10; };
  return {round(r.x), round(r.y), round(r.w), round(r.h)};
}

}  // namespace

std::string to_json(const std::vector<Widget>& widgets) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const Widget& w : widgets)
    out.push_back({{"name", w.name},
                   {"panel", w.panel},
                   {"label", w.label},
                   {"rect", json_of(w.rect)},
                   {"text", json_of(w.text)},
                   {"cut", w.cut},
                   {"layer", w.layer}});
  return out.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::vector<std::string> find_faults(const std::vector<Widget>& widgets) {
  std::vector<std::string> faults;
  constexpr float kTouch = 1.5f;  // boxes of texts are a little larger than their letters
  for (std::size_t i = 0; i < widgets.size(); ++i) {
    const Widget& a = widgets[i];
    if (a.cut) faults.push_back(fmt::format("'{}' of panel '{}' is cut off: '{}'", a.name, a.panel, a.label));
    if (a.text.w <= 0 || a.text.h <= 0) continue;
    for (std::size_t j = i + 1; j < widgets.size(); ++j) {
      const Widget& b = widgets[j];
      if (a.layer != b.layer || b.text.w <= 0 || b.text.h <= 0) continue;
      Rect both = intersect(a.text, b.text);
      if (both.w > kTouch && both.h > kTouch + std::min(a.text.h, b.text.h) * 0.25f)
        faults.push_back(fmt::format("'{}' overlaps '{}' at {:.0f}, {:.0f}", a.name, b.name, both.x, both.y));
    }
  }
  return faults;
}

}  // namespace unity::gui
