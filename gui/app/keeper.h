// Keeps what the next start restores, while the window is open and at its end.
#pragma once

#include <string>
#include <vector>

#include "gui/app/app.h"

namespace unity::gui {

class Keeper {
 public:
  // Empty path: keeps nothing.
  Keeper(App& app, std::string path) : app_(app), path_(std::move(path)) {}
  // Now and then: writes in the background when documents were opened, edited or closed, so that the end of the program
  // by force loses little.
  void note();
  void finish();  // writes all, and waits for it. InputError

 private:
  std::vector<Snapshot> documents() const;

  App& app_;
  std::string path_;
  std::vector<Snapshot> kept_;
  std::chrono::steady_clock::time_point written_ = {};
  Job writing_;
};

}  // namespace unity::gui
