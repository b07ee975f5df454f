// Documents that the GUI's tests share, and a way to run unity-gui.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "core/base/text.h"
#include "gui/session/document.h"
#include "gui/session/jobs.h"
#include "tests/support/paths.h"

namespace unity::gui {

inline Snapshot small_plan() {
  return open_document({.source = "bert-tiny", .topology = "summit", .nodes = 1, .devices = 4, .strategy = "expert"});
}

// While it lives, what is submitted waits.
class BusyPool {
 public:
  explicit BusyPool(Jobs& jobs) {
    for (int i = 0; i < 3; ++i)
      jobs.submit(
          "busy",
          [over = over_](JobState& state) -> Jobs::Completion {
            while (!*over && !state.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            return [] {};
          },
          {}, true);
  }
  ~BusyPool() { *over_ = true; }
  BusyPool(const BusyPool&) = delete;
  BusyPool& operator=(const BusyPool&) = delete;

 private:
  std::shared_ptr<std::atomic<bool>> over_ = std::make_shared<std::atomic<bool>>(false);
};

struct GuiRun {
  int code = 0;
  std::string out, err;
};

// unity-gui with these arguments, without a display; what it printed.
inline GuiRun run_gui(const std::string& arguments) {
  static int number = 0;
  std::string stem =
      (std::filesystem::temp_directory_path() / fmt::format("unity-gui-test-{}-{}", getpid(), number++)).string();
  std::string command = fmt::format("env -u DISPLAY -u WAYLAND_DISPLAY {}/bin/unity-gui {} >{}.out 2>{}.err",
                                    UNITY_BINARY_DIR, arguments, stem, stem);
  int status = std::system(command.c_str());
  GuiRun run{WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(stem + ".out"), read_file(stem + ".err")};
  std::filesystem::remove(stem + ".out");
  std::filesystem::remove(stem + ".err");
  return run;
}

// Whether there is nothing to draw in here: the test that asks is skipped.
inline bool no_opengl() {
  static const GuiRun probe = run_gui("mlp-tiny --dump-widgets");
  if (probe.code == 0) return false;
  std::printf("skipped: no OpenGL without a window: %s\n", probe.err.c_str());
  return true;
}

}  // namespace unity::gui
