// Who writes a file of results: one process at a time, also where several machines share the folder.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

namespace unity::report {

// A small file that says who has it. Without locks, which network file systems may lack: it is made by linking, which
// is one step everywhere, and its owner writes it anew every few seconds. Of an owner on this machine the kernel tells
// whether it lives; one elsewhere is dead when its file does not change for a while (clocks are not compared). What a
// dead process left is taken over.
class Claim {
 public:
  struct Times {
    std::chrono::milliseconds beat{5000}, patience{20000};
  };

  // Gets it. InputError when a live process has it; `what` begins the message: "part 2/3 of out/sweep".
  Claim(std::filesystem::path file, const std::string& what) : Claim(std::move(file), what, Times{}) {}
  Claim(std::filesystem::path file, const std::string& what, Times times);
  ~Claim();  // gives it back
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  // Throws std::runtime_error when another has taken it over, because this process was stopped for long. To be asked
  // before each write of what is claimed.
  void check() const;

 private:
  void beat();

  std::filesystem::path file_;
  std::string what_, token_;
  Times times_;
  int beats_ = 0;
  bool over_ = false;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::thread beating_;
};

// InputError when a live process has the claim.
void refuse_if_claimed(const std::filesystem::path& file, const std::string& what, Claim::Times times = {});

}  // namespace unity::report
