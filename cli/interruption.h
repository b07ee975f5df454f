// Ctrl-C, or SIGTERM as of a batch system, as a request to end early, while an object of this class lives. The first
// one is noted; the second one of a kind ends the process at once, as without it. Also where a shell has its background
// jobs ignore the signal.
#pragma once

#include <atomic>

#include <signal.h>

namespace unity::cli {

class Interruption {
 public:
  // `what` is done then, as in "stopping with the best so far": a literal.
  explicit Interruption(const char* what);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  const std::atomic<bool>& requested() const;

 private:
  struct sigaction interrupt_before_ {};
  struct sigaction terminate_before_ {};
};

}  // namespace unity::cli
