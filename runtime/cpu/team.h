// The threads that help one logical device's thread with its loops.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace unity::cpu {

// Helpers take chunks as they come; the owner takes what is left and waits only for chunks that a helper has begun. So
// a helper that does not get a core in time costs nothing. Who computes a chunk differs from run to run, its bounds do
// not.
class Team {
 public:
  using Call = void (*)(void* body, std::int64_t begin, std::int64_t end);

  explicit Team(int helpers);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int helpers() const { return static_cast<int>(threads_.size()); }

  // Calls call(body, begin, end) for `chunks` ranges that cover 0 .. n - 1. Rethrows one of the exceptions thrown.
  void run(std::int64_t n, std::int64_t chunks, void* body, Call call);

 private:
  struct Job {
    std::int64_t n, chunks;
    void* body;
    Call call;
    std::atomic<std::int64_t> next{0};
    std::mutex mutex;
    std::exception_ptr failure;

    void work();
  };
  void serve();
  void quit();  // and waits for all to end

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  Job* job_ = nullptr;
  std::atomic<std::uint64_t> generation_{0};  // of jobs
  std::atomic<int> active_{0};                // helpers that hold the job
  int sleeping_ = 0;
  bool quit_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace unity::cpu
