// Ctrl-C as a request to end early, while an object of this class lives. The first one is noted; the second one ends
// the process at once, as without it. Also where a shell has its background jobs ignore the signal.
#pragma once

#include <atomic>

#include <signal.h>

namespace unity::cli {

class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  const std::atomic<bool>& requested() const;

 private:
  struct sigaction before_ {};
};

}  // namespace unity::cli
