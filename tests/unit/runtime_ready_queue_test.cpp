#include <algorithm>
#include <mutex>
#include <thread>

#include <catch2/catch.hpp>

#include "runtime/comm/wait.h"
#include "runtime/ready_queue.h"

namespace unity {
namespace {

ReadyTask compute(int task, std::uint32_t lane) { return {TaskId(task), lane, 0, false}; }
ReadyTask communication(int task, std::uint32_t lane) { return {TaskId(task), lane, 0, true}; }

TEST_CASE("of what is ready communications come first, then what the lane goes on with, then the oldest") {
  ReadyQueue queue(kBriefly);
  queue.add(compute(1, 0));
  queue.add(compute(2, 7));
  std::vector<ReadyTask> fresh = {compute(3, 5), communication(4, 1), communication(5, 2)};
  std::vector<int> order;
  for (int i = 0; i < 5; ++i) order.push_back(queue.take(fresh, 5)->task.value);
  CHECK(fresh.empty());
  CHECK(order == std::vector<int>{4, 5, 3, 1, 2});
}

TEST_CASE("who waits for something to do gets what is added, and nothing once the queue is closed") {
  ReadyQueue queue(kBriefly);
  constexpr int kTasks = 2000, kThreads = 3;
  std::mutex mutex;
  std::vector<int> taken;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      std::vector<ReadyTask> fresh;
      while (auto task = queue.take(fresh, 0)) {
        std::lock_guard lock(mutex);
        taken.push_back(task->task.value);
        // Each of the first half makes another one ready.
        if (task->task.value < kTasks / 2) fresh.push_back(compute(task->task.value + kTasks / 2, 0));
      }
    });
  for (int i = 0; i < kTasks / 2; ++i) queue.add(compute(i, 0));
  while (true) {
    std::this_thread::yield();
    std::lock_guard lock(mutex);
    if (taken.size() == kTasks) break;
  }
  queue.close();
  for (std::thread& t : threads) t.join();
  std::sort(taken.begin(), taken.end());
  for (int i = 0; i < kTasks; ++i) CHECK(taken[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("a closed queue gives what it has, then nothing") {
  ReadyQueue queue(kBriefly);
  queue.add(compute(1, 0));
  queue.close();
  std::vector<ReadyTask> fresh;
  REQUIRE(queue.take(fresh, 0));
  CHECK(!queue.take(fresh, 0));
}

}  // namespace
}  // namespace unity
