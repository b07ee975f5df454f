// What is on the screen around the panels: bar, tabs, splitters, palette, messages; and which panel is where.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gui/app/display.h"
#include "gui/panels/panel.h"
#include "gui/session/state.h"

namespace unity::gui {

class Window {
 public:
  Window(Session& session, const Fonts& fonts, const std::string& program);
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  // Between ImGui::NewFrame() and render().
  void draw();
  const std::vector<Widget>& widgets() const { return ui_.widgets(); }
  const std::vector<Ui::Ground>& grounds() const { return ui_.grounds(); }

  SavedState save() const;
  void load(const SavedState& state);
  void say_when_ready(std::string label) { select_when_open_ = std::move(label); }  // selects an operator

  // What the user asked to be written as PNG, once the frame is rendered: area and path; empty path: nothing.
  std::pair<Rect, std::string> take_export() { return std::exchange(export_, {}); }

 private:
  void add_commands();
  void run(const std::string& command, const Arguments& arguments = {});
  void handle_shortcuts();
  void follow_document();
  void draw_bar(const Rect& area);
  void draw_documents(float right);
  void draw_status(const Rect& area);
  void draw_area(Area area, const Rect& place);
  void draw_splitter(const char* name, const Rect& place, bool vertical, const Rect& whole);
  void draw_palette(const Rect& whole);
  void draw_open(const Rect& whole);
  void draw_path(const Rect& whole);
  void draw_messages(const Rect& whole);
  // `kind`, ".svg" or ".png", where the path does not say which.
  void export_front(const std::string& path, std::string_view kind);
  PanelInfo* front(Area area);
  bool any(Area area) const;

  Session& session_;
  Ui ui_;
  std::vector<PanelInfo> panels_;
  std::map<std::string, std::string> tabs_;  // by area: panel in front
  std::map<std::string, double> splits_ = {{"vertical", 0.52}, {"horizontal", 0.72}};
  double other_split_ = 0.32;           // that Ctrl+B changes to
  std::map<std::string, Rect> places_;  // of panels, this frame
  std::string focused_ = "pcg";         // the panel last clicked, which is exported
  bool palette_ = false, palette_opened_ = false;
  std::string palette_text_;
  int palette_at_ = 0;
  bool open_ = false, open_opened_ = false;
  std::string open_text_;
  // What is to be written where.
  struct Asked {
    std::string what, path;
    std::function<void(const std::string&)> go_on;  // empty: nothing is asked
    bool opened = false;
  } asked_;
  int open_topology_ = 0, open_nodes_ = 2, open_strategy_ = 0;
  std::vector<std::string> models_, topologies_, strategies_;
  std::string select_when_open_;
  std::pair<Rect, std::string> export_;
  bool dark_ = false, themed_ = false, sweep_in_front_ = false;
};

// Whether all letters stand in the text in this order, ignoring case.
bool fuzzy_match(std::string_view text, std::string_view letters);

}  // namespace unity::gui
