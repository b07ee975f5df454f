// Everything a user can do, by name: for menus, shortcuts, the palette and scripts. The session's own are in
// commands.def and edits.def; window and panels add theirs.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gui/session/edits.h"

namespace unity::gui {

struct Command {
  std::string name;      // "undo", "pcg.fit"
  std::string label;     // "Undo"
  std::string shortcut;  // "Ctrl+Z"; empty: none
  std::function<bool()> enabled;
  std::function<void(const Arguments&)> run;  // throws InputError where the arguments are wrong
  bool listed = true;                         // in the palette: needs no arguments
};

class Commands {
 public:
  void add(Command command);
  const std::vector<Command>& all() const { return commands_; }
  const Command* find(std::string_view name) const;
  // Error: unknown (with the nearest name), not enabled, or what the command says.
  Result<void> run(std::string_view name, const Arguments& arguments = {}) const;

 private:
  std::vector<Command> commands_;
};

// "Ctrl+Shift+P" -> modifiers and key name.
struct Shortcut {
  bool ctrl = false, shift = false, alt = false;
  std::string key;  // "P", "Left", "F1", "Escape"
  bool operator==(const Shortcut&) const = default;
};
Result<Shortcut> parse_shortcut(std::string_view text);

}  // namespace unity::gui
