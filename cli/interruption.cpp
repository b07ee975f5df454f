#include "cli/interruption.h"

#include <cstring>

#include <unistd.h>

namespace unity::cli {
namespace {

std::atomic<bool> interrupted{false};  // a handler of signals has nothing else to write to
static_assert(std::atomic<bool>::is_always_lock_free);

void note(int) {
  interrupted = true;
  constexpr const char* kText = "\nunity: stopping with the best so far; Ctrl-C again ends at once\n";
  [[maybe_unused]] auto written = write(STDERR_FILENO, kText, std::strlen(kText));
}

}  // namespace

Interruption::Interruption() {
  interrupted = false;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &action, &before_);
}

Interruption::~Interruption() { sigaction(SIGINT, &before_, nullptr); }

const std::atomic<bool>& Interruption::requested() const { return interrupted; }

}  // namespace unity::cli
