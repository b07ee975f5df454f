#include "gui/widgets/ui.h"

#include <algorithm>
#include <cmath>

#include <imgui_internal.h>
#include <imgui_stdlib.h>

#include "core/base/error.h"

namespace unity::gui {

namespace {

float width_of(std::string_view words) { return ImGui::CalcTextSize(words.data(), words.data() + words.size()).x; }

}  // namespace

ImVec2 vec(Point p) { return {p.x, p.y}; }
ImVec4 vec(Color c) { return {c.r / 255.0f, c.g / 255.0f, c.b / 255.0f, c.a / 255.0f}; }
ImU32 packed(Color c) { return IM_COL32(c.r, c.g, c.b, c.a); }
Rect rect_of(ImVec2 low, ImVec2 high) { return {low.x, low.y, high.x - low.x, high.y - low.y}; }
Rect clip_rect() {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  return rect_of(list.GetClipRectMin(), list.GetClipRectMax());
}

void Ui::set_theme(const Theme& theme) {
  theme_ = theme;
  ImGuiStyle& style = ImGui::GetStyle();
  style = ImGuiStyle();
  if (theme.dark)
    ImGui::StyleColorsDark();
  else
    ImGui::StyleColorsLight();
  style.WindowRounding = 0;
  style.WindowBorderSize = 0;
  style.FrameRounding = 4;
  style.PopupRounding = 4;
  style.FrameBorderSize = 1;
  style.FramePadding = {8, 4};
  style.ItemSpacing = {8, 5};
  style.WindowPadding = {10, 8};
  style.ScrollbarSize = 11;
  style.GrabMinSize = 12;
  style.ScaleAllSizes(fonts_.scale());
  auto set = [&](ImGuiCol which, Color c) { style.Colors[which] = vec(c); };
  set(ImGuiCol_Text, theme.text);
  set(ImGuiCol_TextDisabled, theme.dim);
  set(ImGuiCol_WindowBg, theme.panel);
  set(ImGuiCol_ChildBg, theme.panel.with_alpha(0));
  set(ImGuiCol_PopupBg, theme.raised);
  set(ImGuiCol_Border, theme.border);
  set(ImGuiCol_FrameBg, theme.raised);
  set(ImGuiCol_FrameBgHovered, blend(theme.raised, theme.accent, 0.12f));
  set(ImGuiCol_FrameBgActive, blend(theme.raised, theme.accent, 0.2f));
  set(ImGuiCol_Button, theme.raised);
  set(ImGuiCol_ButtonHovered, blend(theme.raised, theme.accent, 0.15f));
  set(ImGuiCol_ButtonActive, blend(theme.raised, theme.accent, 0.3f));
  set(ImGuiCol_Header, blend(theme.panel, theme.accent, 0.2f));
  set(ImGuiCol_HeaderHovered, blend(theme.panel, theme.accent, 0.12f));
  set(ImGuiCol_HeaderActive, blend(theme.panel, theme.accent, 0.3f));
  set(ImGuiCol_SliderGrab, theme.accent);
  set(ImGuiCol_SliderGrabActive, theme.accent);
  set(ImGuiCol_CheckMark, theme.accent);
  set(ImGuiCol_ScrollbarBg, theme.panel);
  set(ImGuiCol_ScrollbarGrab, theme.border);
  set(ImGuiCol_Separator, theme.border);
}

void Ui::begin_frame() {
  widgets_.clear();
  grounds_.clear();
  panel_.clear();
  layer_ = 0;
}

void Ui::note(std::string_view name, std::string_view label, const Rect& rect, const Rect& text, bool cut) {
  widgets_.push_back({std::string(name), panel_, std::string(label), rect, text, cut, layer_});
}

void Ui::note_item(std::string_view name, std::string_view label, float padding, float text_width) {
  Rect item = rect_of(ImGui::GetItemRectMin(), ImGui::GetItemRectMax()), clip = clip_rect();
  Rect text{item.x + padding, item.y, text_width, item.h};
  Rect seen = intersect(text, clip);
  // What is scrolled out is not there; only what no scrolling shows is cut off.
  if (seen.h < item.h * 0.5f) seen = {};
  bool in_sight = std::min(item.bottom(), clip.bottom()) - std::max(item.y, clip.y) > item.h * 0.5f;
  bool scrolls = ImGui::GetScrollMaxX() > 0;  // to what is on the right
  bool cut = in_sight && text_width > 0 && text.x > clip.x - 1 &&
             ((text.right() > clip.right() + 1 && !scrolls) || text.right() > item.right() + 1);
  note(name, label, intersect(item, clip), seen, cut);
}

void Ui::flow(float gap, float behind) { flow_gap_ = gap, flow_behind_ = behind; }

void Ui::place(float width) {
  if (flow_gap_ < 0) return;
  ImGui::SameLine(0, unit(flow_gap_));
  flow_gap_ = -1;
  if (ImGui::GetContentRegionAvail().x + 0.5f >= width + unit(flow_behind_)) return;
  ImGui::NewLine();  // takes SameLine() back
  ImGui::AlignTextToFramePadding();
}

void Ui::text(std::string_view words, Color color, Face face, float size) {
  ImGui::PushFont(fonts_.at(face, unit(size)));
  float width = width_of(words);
  place(width);
  ImGui::PushStyleColor(ImGuiCol_Text, vec(color));
  ImGui::TextUnformatted(words.data(), words.data() + words.size());
  ImGui::PopStyleColor();
  ImGui::PopFont();
  note_item(fmt::format("text {}", words), words, 0, width);
}

void Ui::wrapped(std::string_view words, Color color) {
  ImGui::PushStyleColor(ImGuiCol_Text, vec(color));
  ImGui::PushTextWrapPos(0);
  ImGui::TextUnformatted(words.data(), words.data() + words.size());
  ImGui::PopTextWrapPos();
  ImGui::PopStyleColor();
  note_item(fmt::format("text {}", words), words, 0, ImGui::GetItemRectSize().x);
}

void Ui::heading(std::string_view words) { text(words, theme_.text, Face::strong, 15); }

void Ui::fact(std::string_view label, std::string_view value, float column) {
  float x = ImGui::GetCursorPosX();
  text(label, theme_.dim);
  ImGui::SameLine(x + unit(column));
  text(value, theme_.text, Face::mono, 13);
}

bool Ui::button(std::string_view name, std::string_view label, std::string_view tip, bool enabled, bool pressed) {
  place(width_of(label) + 2 * ImGui::GetStyle().FramePadding.x);
  ImGui::BeginDisabled(!enabled);
  if (pressed) {
    ImGui::PushStyleColor(ImGuiCol_Button, vec(theme_.accent));
    ImGui::PushStyleColor(ImGuiCol_ButtonHovered, vec(theme_.accent));
    ImGui::PushStyleColor(ImGuiCol_Text, vec(readable_on(theme_.accent)));
  }
  bool clicked = ImGui::Button((std::string(label) + id(name)).c_str());
  if (pressed) ImGui::PopStyleColor(3);
  ImGui::EndDisabled();
  note_item(name, label, ImGui::GetStyle().FramePadding.x, width_of(label));
  if (!tip.empty()) tooltip(tip);
  return clicked;
}

bool Ui::link(std::string_view name, std::string_view label, std::string_view tip) {
  place(width_of(label));
  ImVec2 size = ImGui::CalcTextSize(label.data(), label.data() + label.size());
  ImVec2 at = ImGui::GetCursorScreenPos();
  bool clicked = ImGui::InvisibleButton(id(name).c_str(), {std::max(size.x, 1.0f), size.y});
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddText(at, packed(theme_.accent), label.data(), label.data() + label.size());
  if (ImGui::IsItemHovered()) {
    list.AddLine({at.x, at.y + size.y}, {at.x + size.x, at.y + size.y}, packed(theme_.accent));
    ImGui::SetMouseCursor(ImGuiMouseCursor_Hand);
  }
  note_item(name, label, 0, size.x);
  if (!tip.empty()) tooltip(tip);
  return clicked;
}

bool Ui::checkbox(std::string_view name, std::string_view label, bool& value, std::string_view tip) {
  float box = ImGui::GetFrameHeight() + ImGui::GetStyle().ItemInnerSpacing.x;
  place(box + width_of(label));
  bool changed = ImGui::Checkbox((std::string(label) + id(name)).c_str(), &value);
  note_item(name, label, box, width_of(label));
  if (!tip.empty()) tooltip(tip);
  return changed;
}

bool Ui::choose(std::string_view name, const std::vector<std::string>& choices, int& value, float width,
                std::string_view tip) {
  place(unit(width));
  ImGui::SetNextItemWidth(unit(width));
  bool changed = false;
  std::string shown =
      value >= 0 && value < static_cast<int>(choices.size()) ? choices[static_cast<std::size_t>(value)] : std::string();
  float arrow = ImGui::GetFrameHeight();
  // The list is as wide as it needs; what is chosen has the room that there is.
  float room = unit(width) - arrow - 2 * ImGui::GetStyle().FramePadding.x;
  std::string whole = shown;
  if (ImGui::CalcTextSize(shown.c_str()).x > room)
    shown = elide(fonts_.metrics(), whole, 14, Face::text, room / fonts_.scale());
  bool open = ImGui::BeginCombo(id(name).c_str(), shown.c_str());
  Rect item = rect_of(ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
  if (!open) {
    float padding = ImGui::GetStyle().FramePadding.x, text = ImGui::CalcTextSize(shown.c_str()).x;
    Rect clip = clip_rect();
    note(name, shown, intersect(item, clip), intersect({item.x + padding, item.y, text, item.h}, clip),
         padding + text > item.w - arrow || item.right() > clip.right() + 1);
    std::string words = shown == whole ? std::string(tip) : fmt::format("{}\n{}", whole, tip);
    if (!words.empty()) tooltip(words);
    return false;
  }
  note(name, shown, item, {}, false);
  int before = layer_;
  layer_ = 1;
  int chosen = value;
  for (int i = 0; i < static_cast<int>(choices.size()); ++i) {
    const std::string& choice = choices[static_cast<std::size_t>(i)];
    ImGui::PushID(i);  // several may read the same
    if (selectable(fmt::format("{}: {}", name, choice), choice, i == value)) chosen = i;
    ImGui::PopID();
  }
  changed = chosen != value;
  value = chosen;
  layer_ = before;
  ImGui::EndCombo();
  return changed;
}

bool Ui::input(std::string_view name, std::string& value, std::string_view hint, float width, bool focus) {
  place(unit(std::max(width, 0.0f)));
  ImGui::SetNextItemWidth(width < 0 ? -1 : unit(width));
  if (focus) ImGui::SetKeyboardFocusHere();
  bool changed = ImGui::InputTextWithHint(id(name).c_str(), std::string(hint).c_str(), &value);
  std::string_view shown = value.empty() ? hint : std::string_view(value);
  float text = ImGui::CalcTextSize(shown.data(), shown.data() + shown.size()).x;
  Rect item = rect_of(ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
  float padding = ImGui::GetStyle().FramePadding.x;
  // A text that is typed may be longer than its field; a hint may not.
  Rect clip = clip_rect(), seen = intersect({item.x + padding, item.y, text, item.h}, intersect(item, clip));
  if (seen.h < item.h * 0.5f) seen = {};  // scrolled out
  note(name, shown, intersect(item, clip), seen, value.empty() && text + 2 * padding > item.w);
  return changed;
}

bool Ui::number(std::string_view name, int& value, float width) {
  place(unit(width));
  ImGui::SetNextItemWidth(unit(width));
  bool entered = ImGui::InputInt(id(name).c_str(), &value, 1, 6, ImGuiInputTextFlags_EnterReturnsTrue);
  entered = entered || ImGui::IsItemDeactivatedAfterEdit();
  std::string shown = std::to_string(value);
  note_item(name, shown, ImGui::GetStyle().FramePadding.x, ImGui::CalcTextSize(shown.c_str()).x);
  return entered;
}

bool Ui::slider(std::string_view name, double& value, double low, double high, std::string_view shown, float width,
                bool& done, bool logarithmic) {
  place(unit(std::max(width, 0.0f)));
  ImGui::SetNextItemWidth(width < 0 ? -1 : unit(width));
  bool changed = ImGui::SliderScalar(id(name).c_str(), ImGuiDataType_Double, &value, &low, &high,
                                     std::string(shown).c_str(), logarithmic ? ImGuiSliderFlags_Logarithmic : 0);
  done = ImGui::IsItemDeactivatedAfterEdit();
  Rect item = rect_of(ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
  float text = ImGui::CalcTextSize(shown.data(), shown.data() + shown.size()).x;
  note(name, shown, item, {item.x + (item.w - text) / 2, item.y, text, item.h}, text > item.w);
  return changed;
}

bool Ui::selectable(std::string_view name, std::string_view label, bool selected, std::string_view right) {
  bool clicked = ImGui::Selectable((std::string(label) + id(name)).c_str(), selected);
  Rect item = rect_of(ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
  note_item(name, label, 0, ImGui::CalcTextSize(label.data(), label.data() + label.size()).x);
  if (!right.empty()) {
    ImVec2 size = ImGui::CalcTextSize(right.data(), right.data() + right.size());
    ImVec2 at{item.right() - size.x - unit(4), item.y + (item.h - size.y) / 2};
    ImGui::GetWindowDrawList()->AddText(at, packed(theme_.dim), right.data(), right.data() + right.size());
    Rect seen = intersect({at.x, at.y, size.x, size.y}, clip_rect());
    if (seen.h > size.y / 2) note(fmt::format("{} right", name), right, seen, seen, false);
  }
  return clicked;
}

void Ui::swatch(Color color, std::string_view label) {
  constexpr float kSize = 12;
  ImGui::PushFont(fonts_.at(Face::text, unit(kSize)));
  float side = ImGui::GetTextLineHeight() * 0.8f;
  place(side + unit(4) + width_of(label));
  ImVec2 at = ImGui::GetCursorScreenPos();
  float down = ImGui::GetCurrentWindow()->DC.CurrLineTextBaseOffset + ImGui::GetTextLineHeight() * 0.15f;
  ImGui::GetWindowDrawList()->AddRectFilled({at.x, at.y + down}, {at.x + side, at.y + down + side}, packed(color), 2);
  ImGui::Dummy({side, side});
  ImGui::PopFont();
  same_line(4);
  text(label, theme_.dim, Face::text, kSize);
}

void Ui::ramp(std::string_view low, std::string_view high, float width, Face face) {
  constexpr float kSize = 12;
  text(low, theme_.dim, face, kSize);
  same_line(5);
  ImVec2 at = ImGui::GetCursorScreenPos();
  constexpr int kSteps = 40;
  float step = unit(width) / kSteps, height = unit(11);
  float down = ImGui::GetCurrentWindow()->DC.CurrLineTextBaseOffset + unit(2);
  for (int i = 0; i < kSteps; ++i)
    ImGui::GetWindowDrawList()->AddRectFilled({at.x + step * static_cast<float>(i), at.y + down},
                                              {at.x + step * static_cast<float>(i + 1) + 0.5f, at.y + down + height},
                                              packed(theme_.ramp(i / (kSteps - 1.0))));
  ImGui::Dummy({step * kSteps, height});
  same_line(5);
  text(high, theme_.dim, face, kSize);
}

void Ui::tooltip(std::string_view words) {
  if (!ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled)) return;
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(unit(420));
  ImGui::TextUnformatted(words.data(), words.data() + words.size());
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

void Ui::same_line(float gap) { ImGui::SameLine(0, unit(gap)); }
void Ui::gap(float height) { ImGui::Dummy({1, unit(height)}); }

}  // namespace unity::gui
