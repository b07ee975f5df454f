// The window without a display, inside the test.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "gui/app/app.h"
#include "gui/app/script_runner.h"
#include "gui/session/script.h"
#include "tests/support/paths.h"

namespace unity::gui {

// Null where EGL has nothing to draw in, which is said: the test that asks is skipped.
inline std::unique_ptr<App> headless_app(int width = 1200, int height = 800) {
  try {
    return std::make_unique<App>(AppOptions{true, width, height, 1, std::string(UNITY_BINARY_DIR) + "/bin/unity-gui"});
  } catch (const InputError& error) {
    std::printf("skipped: %s\n", error.what());
    return nullptr;
  }
}

inline void run_steps(App& app, const std::string& script) { run_script(app, parse_script(script, "steps.yaml")); }

// How many widgets have these words in their label; `panel`: of this one alone.
inline std::size_t labels_with(App& app, const std::string& words, const std::string& panel = {}) {
  std::size_t count = 0;
  for (const Widget& w : app.window().widgets())
    count += w.label.find(words) != std::string::npos && (panel.empty() || w.panel == panel) ? 1 : 0;
  return count;
}

}  // namespace unity::gui
