// Progress on standard error: a bar on a terminal, elsewhere (the log of a batch job) a line every half a minute.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace unity::cli {

class Progress {
 public:
  explicit Progress(std::string title);
  ~Progress();  // clears the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // From any thread. At most ten drawings a second of a bar. `total` 0: not known.
  void update(std::int64_t done, std::int64_t total, std::string_view note = {});
  void clear();

 private:
  std::string title_;
  bool terminal_;
  std::mutex mutex_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace unity::cli
