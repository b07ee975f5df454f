// ImGui windows whose place the program says.
#pragma once

#include "gui/widgets/ui.h"

namespace unity::gui {

inline constexpr ImGuiWindowFlags kFixed = ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize |
                                           ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoCollapse |
                                           ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus |
                                           ImGuiWindowFlags_NoNavFocus | ImGuiWindowFlags_NoScrollbar;
// Those that may come to the front are above the others.
inline constexpr ImGuiWindowFlags kFront = kFixed & ~ImGuiWindowFlags_NoBringToFrontOnFocus;

// Until ImGui::End(). In pixels.
inline void begin_fixed(const char* name, const Rect& place, Color background, ImGuiWindowFlags flags = kFixed) {
  ImGui::SetNextWindowPos({place.x, place.y});
  ImGui::SetNextWindowSize({place.w, place.h});
  ImGui::PushStyleColor(ImGuiCol_WindowBg, vec(background));
  ImGui::Begin(name, nullptr, flags);
  ImGui::PopStyleColor();
}

}  // namespace unity::gui
