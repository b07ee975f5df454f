#include "gui/session/commands.h"

#include <algorithm>

#include "core/base/text.h"

namespace unity::gui {

void Commands::add(Command command) {
  UNITY_CHECK(!find(command.name), "command {} is registered twice", command.name);
  for (const Command& other : commands_)
    UNITY_CHECK(command.shortcut.empty() || command.shortcut != other.shortcut, "{} and {} have the shortcut {}",
                command.name, other.name, command.shortcut);
  commands_.push_back(std::move(command));
}

const Command* Commands::find(std::string_view name) const {
  auto at = std::find_if(commands_.begin(), commands_.end(), [&](const Command& c) { return c.name == name; });
  return at == commands_.end() ? nullptr : &*at;
}

Result<void> Commands::run(std::string_view name, const Arguments& arguments) const {
  const Command* command = find(name);
  if (!command) {
    std::vector<std::string> known;
    for (const Command& c : commands_) known.push_back(c.name);
    return fail("unknown command '{}'{}", name, suggestion(name, known));
  }
  if (command->enabled && !command->enabled()) return fail("{}: cannot be done now", command->label);
  try {
    command->run(arguments);
  } catch (const InputError& error) {
    return Error{error.what()};
  }
  return {};
}

Result<Shortcut> parse_shortcut(std::string_view text) {
  Shortcut shortcut;
  std::string_view rest = text;
  for (std::size_t plus = rest.find('+'); plus != std::string_view::npos && plus + 1 < rest.size();
       plus = rest.find('+')) {
    std::string_view modifier = rest.substr(0, plus);
    if (modifier == "Ctrl")
      shortcut.ctrl = true;
    else if (modifier == "Shift")
      shortcut.shift = true;
    else if (modifier == "Alt")
      shortcut.alt = true;
    else
      return fail("shortcut '{}': found '{}', expected Ctrl, Shift or Alt before '+'", text, modifier);
    rest.remove_prefix(plus + 1);
  }
  if (rest.empty()) return fail("shortcut '{}': has no key", text);
  shortcut.key = rest;
  return shortcut;
}

}  // namespace unity::gui
