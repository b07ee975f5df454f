// What is restored at the next start: open files, looks, and what each panel wants to keep.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gui/session/document.h"

namespace unity::gui {

struct SavedState {
  static constexpr int kVersion = 1;
  std::vector<OpenRequest> open;
  std::size_t active = 0;
  bool dark = false;
  std::string selected;                       // label of an operator of the active document
  std::map<std::string, double> splits;       // by splitter: its place, a fraction of the window
  std::map<std::string, bool> visible;        // by panel
  std::map<std::string, std::string> tabs;    // by area: the panel in front
  std::map<std::string, std::string> panels;  // by panel: what Panel::save() says
  bool operator==(const SavedState&) const = default;
};

std::string to_json(const SavedState& state);
// InputError on what is no such file, or a newer one.
SavedState state_from_json(const std::string& text, const std::string& file);

// $XDG_STATE_HOME/unity/gui.json, else ~/.local/state/unity/gui.json; empty where neither is known.
std::string default_state_path();

}  // namespace unity::gui
