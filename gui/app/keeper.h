// Keeps what the next start restores, while the window is open and at its end.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gui/app/app.h"

namespace unity::gui {

class Keeper {
 public:
  // Empty path: keeps nothing.
  Keeper(App& app, std::string path) : app_(app), path_(std::move(path)) {}
  // An error ended the program: what was edited is kept as far as it can be.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  // Now and then: writes in the background when documents were opened, edited or closed, so that the end of the program
  // by force loses little.
  void note();
  void finish();  // writes all, and waits for no other work. InputError

 private:
  // Shared with the job that writes: one at a time, and none after the last.
  struct Writing {
    std::mutex mutex;
    bool over = false;
  };
  std::vector<Snapshot> documents() const;

  App& app_;
  std::string path_;
  std::vector<Snapshot> kept_;
  std::string complained_;  // of what could not be written last
  std::chrono::steady_clock::time_point written_ = {};
  std::shared_ptr<Writing> writing_ = std::make_shared<Writing>();
  Job job_;
};

}  // namespace unity::gui
