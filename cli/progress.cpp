#include "cli/progress.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

namespace unity::cli {

Progress::Progress(std::string title)
    : title_(std::move(title)), terminal_(isatty(STDERR_FILENO) != 0), last_(std::chrono::steady_clock::now()) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K"), std::fflush(stderr);
  drawn_ = false;
}

void Progress::update(std::int64_t done, std::int64_t total, std::string_view note) {
  std::lock_guard lock(mutex_);
  auto now = std::chrono::steady_clock::now();
  if (!terminal_) {
    if (title_.empty() || now - last_ < std::chrono::seconds(30)) return;
    last_ = now;
    const std::string of = total > 0 ? fmt::format("/{}", total) : "";
    fmt::print(stderr, "{}: {}{}{}{}\n", title_, done, of, note.empty() ? "" : ", ", note);
    std::fflush(stderr);
    return;
  }
  if (drawn_ && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  constexpr int kWidth = 30;
  std::string bar;
  if (total > 0) {
    int filled = static_cast<int>(std::clamp<std::int64_t>(done * kWidth / total, 0, kWidth));
    bar = fmt::format(" [{:=<{}}{:<{}}] {}/{}", "", filled, "", kWidth - filled, done, total);
  } else {
    bar = fmt::format(" {}", done);
  }
  std::string line = fmt::format("{}{} {}", title_, bar, note).substr(0, 110);
  fmt::print(stderr, "\r{}\x1b[K", line);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace unity::cli
