// A progress bar on standard error, drawn only on a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace unity::cli {

class Progress {
 public:
  explicit Progress(std::string title);
  ~Progress();  // clears the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // At most ten drawings a second. `total` 0: not known.
  void update(std::int64_t done, std::int64_t total, std::string_view note = {});
  void clear();

 private:
  std::string title_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace unity::cli
