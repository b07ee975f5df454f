// Long lists, of which only the lines that are seen are drawn.
#pragma once

#include <algorithm>

#include "gui/widgets/ui.h"

namespace unity::gui {

inline constexpr float kLine = 20;  // height

// In a window that scrolls. `line` draws one by its number; `show`: one that is scrolled to, -1: none.
template <class Draw>
void draw_lines(Ui& ui, std::size_t count, int show, Draw line) {
  float height = ui.unit(kLine);
  if (show >= 0) ImGui::SetScrollY(std::max(0.0f, static_cast<float>(show) * height - ImGui::GetWindowHeight() / 2));
  float top = ImGui::GetCursorPosY();
  auto first = static_cast<std::size_t>(std::max(0.0f, (ImGui::GetScrollY() - top) / height));
  auto last = std::min(count, first + static_cast<std::size_t>(ImGui::GetWindowHeight() / height) + 2);
  for (std::size_t i = first; i < last; ++i) {
    ImGui::SetCursorPosY(top + static_cast<float>(i) * height);
    line(i);
  }
  ImGui::SetCursorPosY(top + static_cast<float>(count) * height);
}

}  // namespace unity::gui
