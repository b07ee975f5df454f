// What is ready to run, for the threads that run it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "core/base/ids.h"

namespace unity {

// A task on one of its lanes; of a communication, the part of the device whose lane it is.
struct ReadyTask {
  TaskId task;
  std::uint32_t lane = 0;
  std::uint32_t participant = 0;
  bool communicates = false;
};

class ReadyQueue {
 public:
  // `patience`: for how long who finds nothing keeps its core before it sleeps.
  explicit ReadyQueue(std::chrono::microseconds patience) : patience_(patience) {}

  void add(ReadyTask task);
  // Adds what `fresh` holds, which is empty then, and takes one: a communication, else of `lane`, else the one that has
  // waited longest. In one step, so that nobody wakes up for what the caller takes itself. Waits while there is none;
  // none once the queue is closed.
  std::optional<ReadyTask> take(std::vector<ReadyTask>& fresh, std::uint32_t lane);
  void close();

 private:
  std::chrono::microseconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ReadyTask> tasks_;  // in the order in which they became ready: no more than there are lanes, or about
  std::atomic<bool> some_{false};
  int sleeping_ = 0;
  bool closed_ = false;
};

}  // namespace unity
