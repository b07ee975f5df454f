#include "cli/interruption.h"

#include <cstring>

#include <unistd.h>

namespace unity::cli {
namespace {

std::atomic<bool> interrupted{false};  // a handler of signals has nothing else to write to
std::atomic<const char*> said{""};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

void say(const char* text) { [[maybe_unused]] auto written = write(STDERR_FILENO, text, std::strlen(text)); }

void note(int) {
  interrupted = true;
  say("\nunity: ");
  say(said);
  say("; Ctrl-C again ends at once\n");
}

}  // namespace

Interruption::Interruption(const char* what) {
  said = what;
  interrupted = false;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &action, &interrupt_before_);
  sigaction(SIGTERM, &action, &terminate_before_);
}

Interruption::~Interruption() {
  sigaction(SIGINT, &interrupt_before_, nullptr);
  sigaction(SIGTERM, &terminate_before_, nullptr);
}

const std::atomic<bool>& Interruption::requested() const { return interrupted; }

}  // namespace unity::cli
