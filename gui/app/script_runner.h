// Runs a script (session/script.h) on an App.
#pragma once

#include <vector>

#include "gui/app/app.h"
#include "gui/session/script.h"

namespace unity::gui {

// InputError "file:line: .." at the first step that cannot be done.
void run_script(App& app, const std::vector<ScriptStep>& steps);

// The widgets of the current frame as JSON; to a file, or "-" for standard output.
void dump_widgets(App& app, const std::string& path);

}  // namespace unity::gui
