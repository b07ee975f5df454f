// What stands above the panels: palette, opening, messages.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "gui/app/fixed_window.h"
#include "gui/app/window.h"

namespace unity::gui {

bool fuzzy_match(std::string_view text, std::string_view letters) {
  std::size_t at = 0;
  for (char c : text)
    if (at < letters.size() &&
        std::tolower(static_cast<unsigned char>(c)) == std::tolower(static_cast<unsigned char>(letters[at])))
      ++at;
  return at == letters.size();
}

void Window::draw_palette(const Rect& whole) {
  if (!palette_) return;
  ui_.set_layer(1);
  float width = ui_.unit(560);
  ImGui::SetNextWindowPos({whole.x + (whole.w - width) / 2, whole.y + ui_.unit(70)});
  ImGui::SetNextWindowSize({width, 0});
  if (palette_opened_) ImGui::SetNextWindowFocus();
  ImGui::PushStyleColor(ImGuiCol_WindowBg, vec(ui_.theme().raised));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1);
  ImGui::Begin("palette", nullptr, kFront);
  if (ui_.input("palette text", palette_text_, "type what to do", -1, palette_opened_)) palette_at_ = 0;
  palette_opened_ = false;
  std::vector<const Command*> shown;
  for (const Command& command : session_.commands.all())
    if (command.listed && command.name != "palette" && fuzzy_match(command.label, palette_text_))
      shown.push_back(&command);
  // Those in which the letters stand together come first, those that cannot be done last.
  std::stable_sort(shown.begin(), shown.end(), [&](const Command* a, const Command* b) {
    auto rank = [&](const Command* c) {
      std::string label = c->label, text = palette_text_;
      for (std::string* s : {&label, &text})
        for (char& l : *s) l = static_cast<char>(std::tolower(static_cast<unsigned char>(l)));
      return (c->enabled() ? 0 : 2) + (label.find(text) == std::string::npos ? 1 : 0);
    };
    return rank(a) < rank(b);
  });
  if (ImGui::IsKeyPressed(key_code("Down"))) ++palette_at_;
  if (ImGui::IsKeyPressed(key_code("Up"))) --palette_at_;
  palette_at_ = shown.empty() ? 0 : std::clamp(palette_at_, 0, static_cast<int>(shown.size()) - 1);
  const Command* chosen = nullptr;
  if (ImGui::IsKeyPressed(key_code("Enter")) && !shown.empty()) chosen = shown[static_cast<std::size_t>(palette_at_)];
  ImGui::BeginChild("commands", {0, ui_.unit(380)});
  for (int i = 0; i < static_cast<int>(shown.size()); ++i) {
    const Command& command = *shown[static_cast<std::size_t>(i)];
    bool possible = command.enabled();
    ImGui::PushStyleColor(ImGuiCol_Text, vec(possible ? ui_.theme().text : ui_.theme().dim));
    if (ui_.selectable("command " + command.name, command.label, i == palette_at_, command.shortcut) && possible)
      chosen = &command;
    ImGui::PopStyleColor();
    if (i == palette_at_) ImGui::SetScrollHereY(0.8f);
  }
  ImGui::EndChild();
  ImGui::End();
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
  ui_.set_layer(0);
  if (chosen) {
    palette_ = false;
    run(std::string(chosen->name));
  }
}

void Window::draw_open(const Rect& whole) {
  if (!open_) return;
  ui_.set_layer(1);
  float width = ui_.unit(520);
  ImGui::SetNextWindowPos({whole.x + (whole.w - width) / 2, whole.y + ui_.unit(90)});
  ImGui::SetNextWindowSize({width, 0});
  if (open_opened_) ImGui::SetNextWindowFocus();
  ImGui::PushStyleColor(ImGuiCol_WindowBg, vec(ui_.theme().raised));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1);
  ImGui::Begin("open", nullptr, kFront);
  ui_.heading("Open");
  ui_.input("open text", open_text_, "a model, or the path of a plan (.json), model (.yaml, .onnx)", -1, open_opened_);
  open_opened_ = false;
  ImGui::BeginChild("models", {0, ui_.unit(170)});
  for (const std::string& model : models_)
    if (fuzzy_match(model, open_text_) && ui_.selectable("model " + model, model, model == open_text_))
      open_text_ = model;
  ImGui::EndChild();
  std::vector<std::string> machines = {"graph alone"};
  machines.insert(machines.end(), topologies_.begin(), topologies_.end());
  ImGui::AlignTextToFramePadding();
  ui_.text("plan for", ui_.theme().dim);
  ui_.same_line();
  ui_.choose("topology", machines, open_topology_, 150, "The machine that a model's plan is made for");
  ui_.same_line();
  ui_.number("nodes", open_nodes_, 110);
  open_nodes_ = std::max(open_nodes_, 1);
  ui_.same_line(4);
  ui_.text("nodes", ui_.theme().dim);
  ImGui::AlignTextToFramePadding();
  ui_.text("strategy", ui_.theme().dim);
  ui_.same_line();
  ui_.choose("strategy", strategies_, open_strategy_, 180, "How the plan is found");
  ui_.gap();
  bool go = ui_.button("open it", "Open", {}, !open_text_.empty()) ||
            (ImGui::IsKeyPressed(key_code("Enter")) && !open_text_.empty());
  ui_.same_line();
  if (ui_.button("close open", "Cancel")) open_ = false;
  ImGui::End();
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
  ui_.set_layer(0);
  if (!go) return;
  open_ = false;
  OpenRequest request{.source = open_text_};
  if (open_topology_ > 0 && !open_text_.ends_with(".json")) {
    request.topology = machines[static_cast<std::size_t>(open_topology_)];
    request.nodes = open_nodes_;
    request.strategy = strategies_[static_cast<std::size_t>(open_strategy_)];
  }
  session_.open(request);
}

void Window::draw_path(const Rect& whole) {
  if (!asked_.go_on) return;
  ui_.set_layer(1);
  float width = ui_.unit(520);
  ImGui::SetNextWindowPos({whole.x + (whole.w - width) / 2, whole.y + ui_.unit(110)});
  ImGui::SetNextWindowSize({width, 0});
  if (asked_.opened) ImGui::SetNextWindowFocus();
  ImGui::PushStyleColor(ImGuiCol_WindowBg, vec(ui_.theme().raised));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1);
  ImGui::Begin("path", nullptr, kFront);
  ui_.heading(asked_.what);
  ui_.input("path text", asked_.path, "the path of a file", -1, asked_.opened);
  bool enter = !asked_.opened && ImGui::IsKeyPressed(key_code("Enter"));
  asked_.opened = false;
  std::error_code error;
  bool there = std::filesystem::exists(asked_.path, error);
  ui_.text(there ? "there is such a file: it is replaced" : "", ui_.theme().warning);
  bool go = ui_.button("save path", "Save", {}, !asked_.path.empty()) || (enter && !asked_.path.empty());
  ui_.same_line();
  if (ui_.button("close path", "Cancel")) asked_.go_on = {};
  ImGui::End();
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
  ui_.set_layer(0);
  if (!go || !asked_.go_on) return;
  std::exchange(asked_.go_on, {})(asked_.path);
}

void Window::draw_messages(const Rect& whole) {
  constexpr double kShown = 6;  // seconds; errors stay
  constexpr std::size_t kMost = 8;
  constexpr std::ptrdiff_t kMostNotices = 3;
  double now = ImGui::GetTime();
  std::deque<Message>& messages = session_.messages();
  auto is_notice = [](const Message& m) { return !m.error; };
  while (std::count_if(messages.begin(), messages.end(), is_notice) > kMostNotices)
    messages.erase(std::find_if(messages.begin(), messages.end(), is_notice));
  while (messages.size() > kMost) messages.pop_front();
  float bottom = whole.bottom() - ui_.unit(12);
  ui_.set_layer(2);
  for (std::size_t i = messages.size(); i-- > 0;) {
    if (messages[i].since < 0) messages[i].since = now;
    float width = ui_.unit(420);
    ImVec2 text = ImGui::CalcTextSize(messages[i].text.c_str(), nullptr, false, width - ui_.unit(60));
    float height = text.y + ui_.unit(20);
    bottom -= height;
    Color tint = messages[i].error ? ui_.theme().error : ui_.theme().good;
    ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1);
    ImGui::PushStyleColor(ImGuiCol_Border, vec(tint));
    begin_fixed(fmt::format("message {}", i).c_str(), {whole.right() - width - ui_.unit(12), bottom, width, height},
                blend(ui_.theme().raised, tint, 0.1f), kFront | ImGuiWindowFlags_NoFocusOnAppearing);
    ImGui::PopStyleColor();
    ImGui::PopStyleVar();
    ImGui::PushTextWrapPos(width - ui_.unit(40));
    ui_.wrapped(messages[i].text, ui_.theme().text);
    ImGui::PopTextWrapPos();
    ImGui::SetCursorPos({width - ui_.unit(30), ui_.unit(8)});
    bool close = ui_.link(fmt::format("dismiss {}", i), icon::kClose, "Dismiss");
    ImGui::End();
    bottom -= ui_.unit(8);
    if (close || (!messages[i].error && now - messages[i].since > kShown)) {
      messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  }
  ui_.set_layer(0);
}

}  // namespace unity::gui
