#include "core/base/parallel.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

namespace unity {
namespace {

thread_local int left = 0;  // to others, by loops of this thread

int one_for_each_core() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) - left); }

}  // namespace

LeaveCore::LeaveCore() { ++left; }
LeaveCore::~LeaveCore() { --left; }

Threads::Threads(int jobs) : spare_((jobs > 0 ? jobs : one_for_each_core()) - 1) {}

bool Threads::take() {
  int spare = spare_;
  while (spare > 0)
    if (spare_.compare_exchange_weak(spare, spare - 1)) return true;
  return false;
}

void parallel_for(std::size_t n, Threads& threads, const std::function<void(std::size_t)>& f) {
  std::vector<std::exception_ptr> failures(n);
  std::atomic<std::size_t> next{0};
  std::mutex mutex;  // of the helpers, which may call for more
  std::vector<std::thread> helpers;
  std::function<void()> work = [&] {
    for (std::size_t i = next++; i < n; i = next++) {
      if (next < n && threads.take()) {
        try {
          std::lock_guard lock(mutex);
          helpers.emplace_back([&] {
            work();
            threads.give();
          });
        } catch (...) {
          threads.give();  // the system has no more: those that there are do it
        }
      }
      try {
        f(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  work();
  // Nothing is left to begin, so that no helper calls for more once all that are listed have ended.
  threads.give();
  for (std::size_t h = 0;; ++h) {
    std::thread helper;
    {
      std::lock_guard lock(mutex);
      if (h == helpers.size()) break;
      helper = std::move(helpers[h]);
    }
    helper.join();
  }
  threads.take_back();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

void parallel_by_rank(std::span<const int> ranks, Threads& threads, const std::function<void(std::size_t)>& f) {
  std::vector<std::size_t> order(ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return ranks[a] < ranks[b]; });
  parallel_for(order.size(), threads, [&](std::size_t k) { f(order[k]); });
}

void parallel_window(std::size_t n, std::size_t window, Threads& threads,
                     const std::function<void(std::size_t)>& before, const std::function<void(std::size_t)>& f,
                     const std::function<void(std::size_t)>& after) {
  std::mutex mutex;  // of what follows, and of before() and after()
  std::condition_variable moved;
  std::vector<bool> done(n, false);
  std::size_t next = 0, ended = 0;  // after() was called for so many
  bool failed = false;
  for (std::size_t i = 0; i < std::min(n, window); ++i) before(i);
  auto work = [&](std::unique_lock<std::mutex>& lock) {
    while (next < n && !failed) {
      const std::size_t i = next++;
      // The smallest of those that have begun never waits.
      if (i >= ended + window) {
        moved.wait(lock, [&] { return i < ended + window || failed; });
        if (failed) return;
      }
      lock.unlock();
      f(i);
      lock.lock();
      done[i] = true;
      for (; ended < n && done[ended] && !failed; ++ended) {
        after(ended);
        if (ended + window < n) before(ended + window);
      }
      moved.notify_all();
    }
  };
  parallel_for(std::min(n, window), threads, [&](std::size_t) {
    std::unique_lock lock(mutex);
    try {
      work(lock);
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      failed = true;
      moved.notify_all();
      throw;
    }
  });
}

void parallel_for(std::size_t n, int jobs, const std::function<void(std::size_t)>& f) {
  Threads threads(jobs);
  parallel_for(n, threads, f);
}

}  // namespace unity
