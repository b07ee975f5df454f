// Independent work on several threads (core/base/parallel.h).

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "core/base/ahead.h"
#include "core/base/concurrent_map.h"
#include "core/base/parallel.h"

using namespace unity;

namespace {

// How many are inside at once, and the most that were.
struct Crowd {
  std::atomic<int> inside{0}, most{0};

  void pass() {
    int now = ++inside, seen = most;
    while (now > seen && !most.compare_exchange_weak(seen, now)) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    --inside;
  }
};

}  // namespace

TEST_CASE("a loop runs every index once, also where loops are in loops") {
  for (int jobs : {1, 2, 3, 8}) {
    Threads threads(jobs);
    std::vector<std::vector<int>> ran(7, std::vector<int>(11, 0));
    for (int round = 0; round < 20; ++round)
      parallel_for(ran.size(), threads,
                   [&](std::size_t i) { parallel_for(ran[i].size(), threads, [&](std::size_t k) { ++ran[i][k]; }); });
    for (const std::vector<int>& row : ran) CHECK(row == std::vector<int>(11, 20));
  }
  parallel_for(0, 4, [](std::size_t) { FAIL("there is nothing to do"); });
}

TEST_CASE("a loop by rank begins with the smallest, of equals with the first, and runs every index once") {
  Threads one(1);
  std::vector<std::size_t> begun;
  parallel_by_rank(std::vector<int>{2, 0, -1, 0, 2, 1}, one, [&](std::size_t i) { begun.push_back(i); });
  CHECK(begun == std::vector<std::size_t>{2, 1, 3, 5, 0, 4});
  Threads three(3);
  std::vector<int> ranks(40), ran(40, 0);
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<int>(i * 7 % 5);
  parallel_by_rank(ranks, three, [&](std::size_t i) { ++ran[i]; });
  CHECK(ran == std::vector<int>(40, 1));
  parallel_by_rank({}, three, [](std::size_t) { FAIL("there is nothing to do"); });
}

TEST_CASE("loops in loops have as many threads as there are, and those that one has no use for") {
  Threads threads(3);
  Crowd crowd;
  // One outer index has all the work: the other two threads come to it.
  parallel_for(3, threads, [&](std::size_t i) {
    if (i == 0) parallel_for(40, threads, [&](std::size_t) { crowd.pass(); });
  });
  CHECK(crowd.most >= 2);
  CHECK(crowd.most <= 3);
  Crowd alone;
  Threads one(1);
  parallel_for(4, one, [&](std::size_t) { parallel_for(4, one, [&](std::size_t) { alone.pass(); }); });
  CHECK(alone.most == 1);
  // All came back.
  CHECK(threads.take());
  CHECK(threads.take());
  CHECK_FALSE(threads.take());
}

TEST_CASE("the exception of the smallest index is passed on when all are done, and threads come back") {
  Threads threads(4);
  std::atomic<int> done{0};
  auto fails = [&] {
    parallel_for(8, threads, [&](std::size_t i) {
      ++done;
      if (i >= 3) throw std::runtime_error(std::to_string(i));
    });
  };
  CHECK_THROWS_WITH(fails(), "3");
  CHECK(done == 8);
  for (int i = 0; i < 3; ++i) CHECK(threads.take());
  CHECK_FALSE(threads.take());
}

TEST_CASE("work ahead is done by a thread to spare, else only when it is asked for") {
  std::atomic<int> done{0};
  for (int jobs : {1, 2}) {
    INFO(jobs << " jobs");
    Threads threads(jobs);
    done = 0;
    {
      Ahead<int> seven(threads, [&] { return ++done, 7; });
      while (jobs == 2 && done == 0) std::this_thread::yield();  // without being asked
      CHECK(done == jobs - 1);
      CHECK(seven.get() == 7);
      CHECK(done == 1);
      Ahead<int> fails(threads, []() -> int { throw std::runtime_error("no"); });
      CHECK_THROWS_WITH(fails.get(), "no");
    }
    {
      Ahead<int> unasked(threads, [&] { return ++done; });
    }
    CHECK(done == jobs);
    // All came back.
    for (int i = 1; i < jobs; ++i) CHECK(threads.take());
    CHECK_FALSE(threads.take());
  }
}

TEST_CASE("in a window, what goes before and after has one order, whatever the threads") {
  for (std::size_t window : {1, 2, 4, 100})
    for (int jobs : {1, 2, 3, 8}) {
      INFO("window " << window << ", " << jobs << " jobs");
      constexpr std::size_t n = 12;
      Threads threads(jobs);
      Crowd crowd;
      std::vector<std::string> calls, expected;
      std::vector<int> state(n, 0);  // 1: before, 2: done, 3: after
      parallel_window(
          n, window, threads,
          [&](std::size_t i) {
            calls.push_back("before " + std::to_string(i));
            ++state[i];
          },
          [&](std::size_t i) {
            crowd.pass();
            state[i] += state[i] == 1;
          },
          [&](std::size_t i) {
            calls.push_back("after " + std::to_string(i));
            state[i] += state[i] == 2;
          });
      for (std::size_t i = 0; i < std::min(window, n); ++i) expected.push_back("before " + std::to_string(i));
      for (std::size_t i = 0; i < n; ++i) {
        expected.push_back("after " + std::to_string(i));
        if (i + window < n) expected.push_back("before " + std::to_string(i + window));
      }
      CHECK(calls == expected);
      CHECK(state == std::vector<int>(n, 3));
      CHECK(crowd.most <= static_cast<int>(std::min<std::size_t>(window, static_cast<std::size_t>(jobs))));
      for (int i = 1; i < jobs; ++i) CHECK(threads.take());
      CHECK_FALSE(threads.take());
    }
}

TEST_CASE("what throws in a window ends it, and threads come back") {
  for (int jobs : {1, 3}) {
    Threads threads(jobs);
    std::vector<std::size_t> after;
    auto fails = [&] {
      parallel_window(
          8, 2, threads, [](std::size_t) {},
          [](std::size_t i) {
            if (i == 3) throw std::runtime_error("3");
          },
          [&](std::size_t i) { after.push_back(i); });
    };
    CHECK_THROWS_WITH(fails(), "3");
    CHECK(after.size() <= 3);  // in order, so that none comes behind the one that failed
    for (std::size_t i = 0; i < after.size(); ++i) CHECK(after[i] == i);
    for (int i = 1; i < jobs; ++i) CHECK(threads.take());
    CHECK_FALSE(threads.take());
  }
}

TEST_CASE("a map of threads gives all of them the same, and forgets when it knows too much") {
  ConcurrentMap<int, std::shared_ptr<int>, std::hash<int>> map;
  std::vector<std::shared_ptr<int>> given(8 * 500);
  std::atomic<int> made{0};
  parallel_for(given.size(), 8, [&](std::size_t i) {
    int key = static_cast<int>(i) % 500;
    given[i] = map.get(key, [&] { return ++made, std::make_shared<int>(key); });
  });
  CHECK((made >= 500 && made <= 4000));
  for (std::size_t i = 0; i < given.size(); ++i)
    CHECK((given[i] == given[i % 500] && *given[i] == static_cast<int>(i) % 500));

  ConcurrentMap<int, int, std::hash<int>> small(64);  // one key in each part
  int asked = 0;
  auto ask = [&](int key) { return small.get(key, [&] { return ++asked, -key; }); };
  CHECK((ask(1) == -1 && ask(1) == -1 && asked == 1));
  CHECK((ask(2) == -2 && ask(1) == -1 && asked == 3));  // small numbers are in one part

  // Or keys that count for too much: each for itself here, of up to 10 in a part.
  struct Weight {
    std::size_t operator()(int key) const { return static_cast<std::size_t>(key); }
  };
  ConcurrentMap<int, int, std::hash<int>, std::equal_to<>, Weight> heavy(64 * 10);
  asked = 0;
  auto ask_heavy = [&](int key) { return heavy.get(key, [&] { return ++asked, -key; }); };
  CHECK((ask_heavy(4) == -4 && ask_heavy(5) == -5 && ask_heavy(4) == -4 && ask_heavy(5) == -5 && asked == 2));
  CHECK((ask_heavy(6) == -6 && ask_heavy(4) == -4 && asked == 3));  // 15 are too many for the next one
  CHECK((ask_heavy(7) == -7 && ask_heavy(4) == -4 && asked == 5));
}
