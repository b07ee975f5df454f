#include "gui/app/window.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/base/text.h"
#include "core/models/models.h"
#include "core/search/search.h"
#include "gui/app/fixed_window.h"
#include "gui/widgets/svg_painter.h"

namespace unity::gui {
namespace {

constexpr float kBar = 40, kStatus = 28, kSplitter = 6;
const char* area_name(Area area) { return area == Area::left ? "left" : area == Area::right ? "right" : "bottom"; }

bool pressed(const Shortcut& shortcut) {
  const ImGuiIO& io = ImGui::GetIO();
  return io.KeyCtrl == shortcut.ctrl && io.KeyShift == shortcut.shift && io.KeyAlt == shortcut.alt &&
         ImGui::IsKeyPressed(key_code(shortcut.key), shortcut.key != "Enter" && shortcut.key != "Escape");
}

}  // namespace

Window::Window(Session& session, const Fonts& fonts, const std::string& program)
    : session_(session), ui_(fonts), panels_(make_panels({fonts.metrics(), program})) {
  session_.asks_path = [this](const std::string& what, const std::string& proposal,
                              std::function<void(const std::string&)> go_on) {
    asked_ = {what, proposal, std::move(go_on), true};
  };
  add_commands();
  for (PanelInfo& info : panels_) info.panel->add_commands(session_);
  models_ = model_names();
  topologies_ = topology_names();
  strategies_ = strategy_names();
  auto best = std::find(strategies_.begin(), strategies_.end(), "unity");
  open_strategy_ = best == strategies_.end() ? 0 : static_cast<int>(best - strategies_.begin());
}

void Window::add_commands() {
  auto always = [] { return true; };
  session_.commands.add({"palette", "All commands", "Ctrl+P", always, [this](const Arguments&) {
                           palette_ = palette_opened_ = true;
                           palette_text_.clear();
                           palette_at_ = 0;
                         }});
  session_.commands.add({"open_dialog", "Open a model, plan or file ..", "Ctrl+O", always,
                         [this](const Arguments&) { open_ = open_opened_ = true; }});
  session_.commands.add({"quit", "Quit", "Ctrl+Q", always, [this](const Arguments&) { session_.quit = true; }});
  session_.commands.add({"taller", "Panels below: taller, or as before", "Ctrl+B", always, [this](const Arguments&) {
                           constexpr double kTall = 0.32;
                           double& at = splits_["horizontal"];
                           at = std::exchange(other_split_, at);
                           if (at == other_split_) at = at == kTall ? 0.72 : kTall;
                         }});
  auto export_as = [this](const char* end) {
    return [this, end](const Arguments& a) {
      if (a.contains("file")) return export_front(a.at("file"), end);
      session_.ask_path("Export this view as", focused_ + end, [this, end](const std::string& path) {
        try {
          export_front(path, end);
        } catch (const InputError& error) {
          session_.complain(error.what());
        }
      });
    };
  };
  session_.commands.add({"export_svg", "Export this view as SVG", "Ctrl+Shift+S", always, export_as(".svg")});
  session_.commands.add({"export_png", "Export this view as PNG", "Ctrl+Shift+P", always, export_as(".png")});
  for (PanelInfo& info : panels_) {
    session_.commands.add({"show_" + info.name, "Panel: " + info.title, "", always, [this, &info](const Arguments&) {
                             info.visible = true;
                             tabs_[area_name(info.area)] = info.name;
                             focused_ = info.name;
                           }});
    session_.commands.add({"hide_" + info.name, "Hide panel: " + info.title, "", [&info] { return info.visible; },
                           [&info](const Arguments&) { info.visible = false; }});
  }
}

void Window::run(const std::string& command, const Arguments& arguments) {
  Result<void> done = session_.commands.run(command, arguments);
  if (!done.ok()) session_.complain(done.error().message);
}

void Window::handle_shortcuts() {
  const ImGuiIO& io = ImGui::GetIO();
  if (palette_ || open_ || asked_.go_on) {
    if (ImGui::IsKeyPressed(key_code("Escape"))) palette_ = open_ = false, asked_.go_on = {};
    return;
  }
  for (const Command& command : session_.commands.all()) {
    if (command.shortcut.empty()) continue;
    Shortcut shortcut = parse_shortcut(command.shortcut).value();
    // What a text field does with its own keys comes first.
    if (io.WantTextInput && (!shortcut.ctrl || shortcut.key == "Z" || shortcut.key == "Y" || shortcut.key.size() > 1))
      continue;
    if (pressed(shortcut) && command.enabled()) {
      run(command.name);
      return;
    }
  }
}

bool Window::any(Area area) const {
  return std::any_of(panels_.begin(), panels_.end(), [&](const PanelInfo& p) { return p.area == area && p.visible; });
}

PanelInfo* Window::front(Area area) {
  PanelInfo* first = nullptr;
  for (PanelInfo& info : panels_) {
    if (info.area != area || !info.visible) continue;
    if (!first) first = &info;
    if (tabs_[area_name(area)] == info.name) return &info;
  }
  return first;
}

void Window::export_front(const std::string& path, std::string_view kind) {
  auto info = std::find_if(panels_.begin(), panels_.end(), [&](const PanelInfo& p) { return p.name == focused_; });
  if (info == panels_.end()) throw_input_error("there is no panel to be exported");
  if (path.ends_with(".svg") || path.ends_with(".png")) kind = std::string_view(path).substr(path.size() - 4);
  if (kind == ".svg") {
    std::optional<Drawing> drawing = info->panel->drawing(ui_.theme());
    if (!drawing) throw_input_error("{}: this panel is no drawing, it exports as PNG", info->title);
    SvgPainter painter(drawing->bounds, ui_.theme().canvas);
    drawing->paint(painter);
    write_file_atomically(path, painter.document());
    session_.say(fmt::format("{} written to {}", info->title, path));
  } else {
    export_ = {places_[info->name], path};
  }
}

void Window::draw_bar(const Rect& area) {
  begin_fixed("bar", area, Color{0, 0, 0, 0});
  ImGui::SetCursorPosY((area.h - ImGui::GetFrameHeight()) / 2);
  ImGui::AlignTextToFramePadding();
  ui_.text("Unity", ui_.theme().accent, Face::strong, 17);
  ui_.same_line(14);
  if (ui_.button("open", icon::kFolder, "Open a model, plan or file (Ctrl+O)")) run("open_dialog");
  ui_.same_line(4);
  auto tip = [&](const char* verb, bool possible, std::size_t index) {
    std::string what = verb;
    if (possible)
      for (const EditInfo& edit : edits())
        if (edit.name == session_.file()->history.edits()[index].name)
          what += std::string(": ") + std::string(edit.label);
    return what;
  };
  const History* history = session_.file() ? &session_.file()->history : nullptr;
  bool undo = history && history->can_undo(), redo = history && history->can_redo();
  if (ui_.button("undo", icon::kUndo, tip("Undo (Ctrl+Z)", undo, undo ? history->position() - 1 : 0), undo))
    run("undo");
  ui_.same_line(4);
  if (ui_.button("redo", icon::kRedo, tip("Redo (Ctrl+Y)", redo, redo ? history->position() : 0), redo)) run("redo");
  ui_.same_line(14);
  float right = area.w - ui_.unit(160);
  draw_documents(right - ui_.unit(40));
  if (session_.document()) {
    if (ui_.button("close document", icon::kClose, "Close this document (Ctrl+W)")) run("close");
    ui_.same_line(4);
  }
  if (ImGui::GetCursorPosX() < right) ImGui::SameLine(right);
  if (ui_.button("palette", std::string(icon::kKeyboard) + " Commands", "Everything one can do (Ctrl+P)"))
    run("palette");
  ui_.same_line(4);
  if (ui_.button("theme", session_.dark ? icon::kSun : icon::kMoon, "Light or dark (Ctrl+T)")) run("toggle_theme");
  ImGui::End();
}

// Those that have room, the one in front among them; the others are in a list.
void Window::draw_documents(float right) {
  constexpr float kTitle = 190, kMore = 110;
  std::vector<std::string> labels;
  std::vector<float> ends = {0};
  for (const std::string& title : session_.titles()) {
    bool edited = session_.files()[labels.size()]->history.now()->edited;
    labels.push_back(elide(ui_.fonts().metrics(), title, 14, Face::text, kTitle) + (edited ? " *" : ""));
    ends.push_back(ends.back() + ImGui::CalcTextSize(labels.back().c_str()).x + 2 * ImGui::GetStyle().FramePadding.x +
                   ui_.unit(4));
  }
  float room = right - ImGui::GetCursorPosX();
  std::size_t first = 0, last = labels.size();
  if (ends.back() > room) {
    room -= ui_.unit(kMore + 4);
    while (first < session_.active() && ends[session_.active() + 1] - ends[first] > room) ++first;
    while (last > session_.active() + 1 && ends[last] - ends[first] > room) --last;
  }
  for (std::size_t i = first; i < last; ++i) {
    const std::string& source = session_.files()[i]->history.now()->request.source;
    if (ui_.button(fmt::format("document {}", i), labels[i], source, true, i == session_.active()))
      session_.activate(i);
    ui_.same_line(4);
  }
  if (last - first == labels.size()) return;
  std::vector<std::string> choices;
  for (std::size_t i = 0; i < labels.size(); ++i) choices.push_back(fmt::format("{}  {}", i + 1, labels[i]));
  choices.push_back(fmt::format("{} more", labels.size() - (last - first)));
  int chosen = static_cast<int>(labels.size());
  if (ui_.choose("documents", choices, chosen, kMore, "All open documents (Ctrl+Tab: the next)") &&
      chosen < static_cast<int>(labels.size()))
    session_.activate(static_cast<std::size_t>(chosen));
  ui_.same_line(4);
}

void Window::draw_status(const Rect& area) {
  begin_fixed("status", area, Color{0, 0, 0, 0});
  ImGui::SetCursorPosY((area.h - ImGui::GetTextLineHeight()) / 2);
  const Theme& theme = ui_.theme();
  std::vector<Job> running = session_.jobs.running();
  std::string job;
  if (!running.empty()) {
    job =
        running.size() > 1 ? fmt::format("{} and {} more", running[0]->name(), running.size() - 1) : running[0]->name();
    if (running[0]->fraction() > 0) job += fmt::format(" {:.0f}%", 100 * running[0]->fraction());
  }
  job = elide(ui_.fonts().metrics(), job, 14, Face::text, area.w / ui_.fonts().scale() * 0.4f);
  float right = area.w - (job.empty() ? 0 : ImGui::CalcTextSize(job.c_str()).x + ui_.unit(70));
  // What matters less comes later, and is left out where there is no room.
  auto put = [&](const std::string& words, Color color, Face face = Face::text) {
    float room = (right - ImGui::GetCursorPosX()) / ui_.fonts().scale() - 12;
    if (words.empty() || room < 60) return;
    std::string shown = elide(ui_.fonts().metrics(), words, 14, face, room);
    ui_.text(shown, color, face);
    if (shown != words) ui_.tooltip(words);
    ui_.same_line(14);
  };
  Snapshot document = session_.document();
  PredictionPtr now = session_.prediction(), before = session_.prediction_before();
  if (document && document->plan) {
    if (!now) {
      put("simulating ..", theme.dim);
    } else if (!now->error.empty()) {
      put(now->error, theme.error);
    } else {
      put(fmt::format("{} per iteration   {:.1f} samples/s", now->iteration_text(), now->samples_per_second),
          theme.text, Face::strong);
      if (before && before->error.empty() && before->iteration.count > 0) {
        double change = 100 * (now->iteration.seconds() / before->iteration.seconds() - 1);
        put(fmt::format("{:+.2f}% ({} before)", change, to_string(before->iteration)),
            change <= 0 ? theme.good : theme.error);
      }
      if (now->estimated) put("exact time and details follow ..", theme.dim);
      put(now->does_not_fit(*document->topology), theme.error);
    }
    put(fmt::format("{} devices of {}", document->topology->device_count(), document->topology->name), theme.dim);
  }
  if (document)
    put(document->sweep ? fmt::format("{} points", document->sweep->results.rows.size())
                        : fmt::format("{} nodes", document->graph().size()),
        theme.dim);
  if (!job.empty()) {
    ImGui::SetCursorPosX(right);
    ui_.text(job, theme.accent);
    ui_.same_line(8);
    if (ui_.link("cancel", "cancel", "Stop what runs in the background")) run("cancel");
  } else {
    ImGui::NewLine();
  }
  ImGui::End();
}

void Window::draw_area(Area area, const Rect& place) {
  PanelInfo* shown = front(area);
  if (!shown) return;
  ui_.ground(place, ui_.theme().panel);
  begin_fixed(area_name(area), place, Color{0, 0, 0, 0}, kFixed | ImGuiWindowFlags_NoScrollWithMouse);
  std::vector<PanelInfo*> tabs;
  for (PanelInfo& info : panels_)
    if (info.area == area && info.visible) tabs.push_back(&info);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  for (PanelInfo* info : tabs) {
    std::string label = fmt::format("{}  {}", info->icon, info->title);
    bool front = info == shown;
    ImVec2 size = ImGui::CalcTextSize(label.c_str());
    ImVec2 at = ImGui::GetCursorScreenPos();
    if (ImGui::InvisibleButton(("##tab " + info->name).c_str(), {size.x + ui_.unit(8), size.y + ui_.unit(6)}))
      run("show_" + info->name);
    list.AddText({at.x, at.y + ui_.unit(2)}, packed(front ? ui_.theme().text : ui_.theme().dim), label.c_str());
    if (front)
      list.AddRectFilled({at.x, at.y + size.y + ui_.unit(4)}, {at.x + size.x, at.y + size.y + ui_.unit(6)},
                         packed(ui_.theme().accent));
    ui_.note("tab " + info->title, info->title, rect_of(ImGui::GetItemRectMin(), ImGui::GetItemRectMax()),
             {at.x, at.y, size.x, size.y}, false);
    ui_.same_line(16);
  }
  ImGui::NewLine();
  ImVec2 corner = ImGui::GetCursorScreenPos();
  ui_.set_panel(shown->name);
  ImGui::BeginChild(shown->name.c_str(), {0, 0}, false);
  places_[shown->name] = {corner.x, corner.y, ImGui::GetWindowWidth(), ImGui::GetWindowHeight()};
  if (ImGui::IsWindowHovered(ImGuiHoveredFlags_ChildWindows) && ImGui::IsMouseClicked(0)) focused_ = shown->name;
  shown->panel->draw(ui_, session_);
  ImGui::EndChild();
  ui_.set_panel("");
  ImGui::End();
}

void Window::draw_splitter(const char* name, const Rect& place, bool vertical, const Rect& whole) {
  begin_fixed(name, place, Color{0, 0, 0, 0});
  ImGui::SetCursorScreenPos({place.x, place.y});
  ImGui::InvisibleButton(name, {place.w, place.h});
  ui_.note(std::string("splitter ") + name, "", place, {}, false);
  if (ImGui::IsItemHovered() || ImGui::IsItemActive())
    ImGui::SetMouseCursor(vertical ? ImGuiMouseCursor_ResizeEW : ImGuiMouseCursor_ResizeNS);
  if (ImGui::IsItemActive()) {
    const ImGuiIO& io = ImGui::GetIO();
    double at = vertical ? (io.MousePos.x - whole.x) / whole.w : (io.MousePos.y - whole.y) / whole.h;
    splits_[name] = std::clamp(at, 0.15, 0.85);
  }
  ImGui::End();
}

// What a document is decides which panel shows it: one that is no graph is not looked at as one.
void Window::follow_document() {
  Snapshot document = session_.document();
  bool sweep = document && document->sweep;
  if (std::exchange(sweep_in_front_, sweep) == sweep) return;
  std::string& left = tabs_["left"];
  if (sweep)
    left = focused_ = "experiments";
  else if (left == "experiments")
    left = focused_ = "pcg";
}

void Window::draw() {
  if (!themed_ || dark_ != session_.dark) {
    ui_.set_theme(make_theme(session_.dark));
    dark_ = session_.dark;
    themed_ = true;
  }
  ui_.begin_frame();
  places_.clear();
  handle_shortcuts();
  if (!select_when_open_.empty() && session_.document()) {
    const Pcg& pcg = session_.document()->graph();
    for (std::size_t i = 0; i < pcg.size(); ++i)
      if (pcg.nodes()[i].name == select_when_open_ && !pcg.nodes()[i].is_parallelization())
        session_.select(Selection::of(NodeId(static_cast<std::int64_t>(i))));
    select_when_open_.clear();
  }
  follow_document();
  ImVec2 size = ImGui::GetIO().DisplaySize;
  ui_.ground({0, 0, size.x, size.y}, ui_.theme().window);
  float bar = ui_.unit(kBar), status = ui_.unit(kStatus), split = ui_.unit(kSplitter);
  Rect whole{0, bar, size.x, size.y - bar - status};
  draw_bar({0, 0, size.x, bar});
  draw_status({0, size.y - status, size.x, status});
  Rect top = whole;
  if (any(Area::bottom)) {
    float at =
        any(Area::left) || any(Area::right) ? std::round(whole.h * static_cast<float>(splits_["horizontal"])) : 0;
    top.h = at;
    draw_area(Area::bottom, {whole.x, whole.y + at + split, whole.w, whole.h - at - split});
    if (at > 0) draw_splitter("horizontal", {whole.x, whole.y + at, whole.w, split}, false, whole);
  }
  if (any(Area::left) && any(Area::right)) {
    float at = std::round(top.w * static_cast<float>(splits_["vertical"]));
    draw_area(Area::left, {top.x, top.y, at, top.h});
    draw_area(Area::right, {top.x + at + split, top.y, top.w - at - split, top.h});
    draw_splitter("vertical", {top.x + at, top.y, split, top.h}, true, top);
  } else {
    draw_area(any(Area::left) ? Area::left : Area::right, top);
  }
  draw_open(whole);
  draw_path(whole);
  draw_palette(whole);
  draw_messages(whole);
}

SavedState Window::save() const {
  SavedState state;
  state.open = session_.restoring();
  state.active = session_.active();
  state.dark = session_.dark;
  if (NodeId node = session_.selection().node(); node.valid()) state.selected = session_.document()->graph()[node].name;
  state.splits = splits_;
  for (const PanelInfo& info : panels_) {
    state.visible[info.name] = info.visible;
    state.panels[info.name] = info.panel->save();
  }
  state.tabs = tabs_;
  return state;
}

void Window::load(const SavedState& state) {
  session_.dark = state.dark;
  for (const auto& [name, at] : state.splits) splits_[name] = std::clamp(at, 0.15, 0.85);
  for (PanelInfo& info : panels_) {
    if (auto at = state.visible.find(info.name); at != state.visible.end()) info.visible = at->second;
    if (auto at = state.panels.find(info.name); at != state.panels.end()) info.panel->load(at->second);
  }
  for (const auto& [area, panel] : state.tabs) tabs_[area] = panel;
  select_when_open_ = state.selected;
}

}  // namespace unity::gui
