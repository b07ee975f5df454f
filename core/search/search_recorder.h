// Writes a search's log (core/plan/search_log.h) while it goes on, and knows when it has to stop early.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "core/search/search.h"

namespace unity {

// Counts may come from several threads; sums do not depend on their order. Complete plans come from one thread at a
// time, in an order that repeats. Any thread may ask for the log meanwhile.
class SearchRecorder {
 public:
  // `stop`: set by whoever wants the search to end; may be null. `time_limit`: seconds, 0 for none.
  explicit SearchRecorder(const std::atomic<bool>* stop = nullptr, double time_limit = 0);
  // Of a part of a search, beside it: it stops when that does; what it counts is there for add().
  struct Beside {
    const SearchRecorder& other;
  };
  explicit SearchRecorder(Beside beside);
  void add(const SearchRecorder& beside);

  void left_out(LeftOut reason, std::int64_t count = 1) {
    if (count) left_out_[static_cast<std::size_t>(reason)] += count;
  }
  void found(std::int64_t candidates, Picoseconds iteration);
  void part_solved() { ++parts_solved_; }
  void part_reused() { ++parts_reused_; }

  // Adds the processor time of the calling thread, from here to the end of its life. Not to be nested.
  class Timer {
   public:
    explicit Timer(std::atomic<std::int64_t>& sum);
    ~Timer();
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

   private:
    std::atomic<std::int64_t>& sum_;
    std::int64_t start_;
  };
  Timer time(SearchLevel level) { return Timer(nanoseconds_[static_cast<std::size_t>(level)]); }
  template <class Work>
  auto timed(SearchLevel level, const Work& work) {
    Timer timer = time(level);
    return work();
  }

  // What one level-2 search has before it, which ends with its life. One thread says it.
  class Queue {
   public:
    explicit Queue(SearchRecorder& record) : record_(record) {}
    ~Queue() { say({}); }
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;
    void say(SearchQueue now);

   private:
    SearchRecorder& record_;
    SearchQueue said_;
  };
  SearchQueue queue() const { return {to_score_, to_expand_}; }  // of all that run

  // Whether no further candidate may be scored. Once true, always true: a search that asked was cut short.
  bool stopping();
  bool stopped() const { return stopped_; }

  double seconds() const;  // since construction
  SearchLog log() const;

 private:
  const std::atomic<bool>* stop_;
  double time_limit_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::atomic<bool> stopped_{false};
  std::array<std::atomic<std::int64_t>, kLeftOutReasons> left_out_{};
  std::array<std::atomic<std::int64_t>, kSearchLevels> nanoseconds_{};
  std::atomic<std::int64_t> parts_solved_{0}, parts_reused_{0};
  std::atomic<std::int64_t> to_score_{0}, to_expand_{0};
  mutable std::mutex best_mutex_;
  std::vector<BestSoFar> best_;
  std::vector<double> best_seconds_;
};

}  // namespace unity
