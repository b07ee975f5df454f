// unity-gui --bench: how fast it is on this machine.
#pragma once

#include <string>
#include <vector>

#include "gui/app/app.h"

namespace unity::gui {

// Prints a table. `plans`: files to be opened and edited; `start`: seconds until the first frame.
void run_bench(App& app, const std::vector<OpenRequest>& plans, double start);

}  // namespace unity::gui
