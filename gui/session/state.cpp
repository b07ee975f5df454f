#include "gui/session/state.h"

#include <cstdlib>
#include <filesystem>

#include <nlohmann/json.hpp>

namespace unity::gui {

using nlohmann::ordered_json;

std::string to_json(const SavedState& state) {
  ordered_json open = ordered_json::array();
  for (const OpenRequest& r : state.open)
    open.push_back({{"source", r.source},
                    {"topology", r.topology},
                    {"nodes", r.nodes},
                    {"devices", r.devices},
                    {"strategy", r.strategy}});
  ordered_json out = {{"format", "unity-gui-state"},
                      {"version", SavedState::kVersion},
                      {"open", open},
                      {"active", state.active},
                      {"dark", state.dark},
                      {"selected", state.selected},
                      {"splits", state.splits},
                      {"visible", state.visible},
                      {"tabs", state.tabs},
                      {"panels", state.panels}};
  return out.dump(2) + "\n";
}

SavedState state_from_json(const std::string& text, const std::string& file) {
  SavedState state;
  try {
    ordered_json in = ordered_json::parse(text);
    if (in.at("format") != "unity-gui-state") throw_input_error("{}: is no state of unity-gui", file);
    if (in.at("version") > SavedState::kVersion)
      throw_input_error("{}: found version {}, expected at most {}", file, in.at("version").get<int>(),
                        SavedState::kVersion);
    for (const ordered_json& r : in.at("open"))
      state.open.push_back({r.at("source"), r.at("topology"), r.at("nodes"), r.at("devices"), r.at("strategy")});
    in.at("active").get_to(state.active);
    in.at("dark").get_to(state.dark);
    in.at("selected").get_to(state.selected);
    in.at("splits").get_to(state.splits);
    in.at("visible").get_to(state.visible);
    in.at("tabs").get_to(state.tabs);
    in.at("panels").get_to(state.panels);
  } catch (const ordered_json::exception& error) {
    throw_input_error("{}: is no state of unity-gui: {}", file, error.what());
  }
  return state;
}

std::string default_state_path() {
  namespace fs = std::filesystem;
  if (const char* state = std::getenv("XDG_STATE_HOME"); state && *state)
    return (fs::path(state) / "unity" / "gui.json").string();
  if (const char* home = std::getenv("HOME"); home && *home)
    return (fs::path(home) / ".local" / "state" / "unity" / "gui.json").string();
  return {};
}

}  // namespace unity::gui
