// Independent work on several threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>

namespace unity {

// How many threads may work at once, shared by all that is done with them, however it is nested: a thread that one loop
// has no more use for is there for the others. Who uses it counts as one.
class Threads {
 public:
  explicit Threads(int jobs);  // 0: one for each core
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  bool take();                    // whether there was one to spare
  void give() { ++spare_; }       // one that was taken, or the own while it waits
  void take_back() { --spare_; }  // the own after that; more may work for a moment

 private:
  std::atomic<int> spare_;
};

// While it lives, "one for each core" is one less for loops of the calling thread: for what another thread of the
// process has to do at once.
class LeaveCore {
 public:
  LeaveCore();
  ~LeaveCore();
  LeaveCore(const LeaveCore&) = delete;
  LeaveCore& operator=(const LeaveCore&) = delete;
};

// Calls f(0) .. f(n-1), on as many threads as there are to spare. Which thread runs what is not determined, so f must
// only write what belongs to its index. An exception of the smallest index is rethrown when all are done.
void parallel_for(std::size_t n, Threads& threads, const std::function<void(std::size_t)>& f);

// The same for each rank, of which the smallest begins first; of equals, that of the smallest index.
void parallel_by_rank(std::span<const int> ranks, Threads& threads, const std::function<void(std::size_t)>& f);

// As parallel_for, but at most `window` of them are under way: f(i) waits for f(0) .. f(i - window) to end. What goes
// before it and after it is called by one thread at a time, in an order that no thread changes: before(0) ..
// before(window - 1), then after(0), before(window), after(1), before(window + 1) and so on. An exception ends all, and
// is rethrown.
void parallel_window(std::size_t n, std::size_t window, Threads& threads,
                     const std::function<void(std::size_t)>& before, const std::function<void(std::size_t)>& f,
                     const std::function<void(std::size_t)>& after);

// As parallel_for, on up to `jobs` threads (0: one for each core).
void parallel_for(std::size_t n, int jobs, const std::function<void(std::size_t)>& f);

}  // namespace unity
