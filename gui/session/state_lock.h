// That one program at a time writes a state file: two windows would remove each other's plans.
#pragma once

#include <memory>
#include <string>

namespace unity::gui {

// Holds "gui.json.lock" as long as it lives; the end of the program gives it back, however it comes.
class StateLock {
 public:
  explicit StateLock(const std::string& path);
  ~StateLock();
  StateLock(const StateLock&) = delete;
  StateLock& operator=(const StateLock&) = delete;
  bool elsewhere() const { return elsewhere_; }  // another program has it

 private:
  std::string file_;
  int descriptor_ = -1;
  bool elsewhere_ = false;
};

// Changes the path to "gui-2.json" and so on until one is free.
std::unique_ptr<StateLock> lock_state(std::string& path);

}  // namespace unity::gui
