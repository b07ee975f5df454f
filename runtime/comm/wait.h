// Waiting for another thread.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace unity {

// For how long it is worth to look before one sleeps, where others may want the core.
constexpr std::chrono::microseconds kBriefly{50};

// Looks for a while, yielding the core in between, and says whether the condition came true. Waking a sleeper costs
// more than most small tasks and messages take; on a busy machine one yield uses the time up, and the caller sleeps.
template <class Condition>
bool wait_briefly(Condition&& condition, std::chrono::microseconds longest = kBriefly) {
  auto until = std::chrono::steady_clock::now() + longest;
  do {
    if (condition()) return true;
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < until);
  return condition();
}

// Waits until the value is as wanted, and gives it; who changes it calls notify_all().
template <class T, class Condition>
T await(const std::atomic<T>& value, Condition&& wanted) {
  wait_briefly([&] { return wanted(value.load()); });
  for (T now = value.load();; now = value.load()) {
    if (wanted(now)) return now;
    value.wait(now);
  }
}

}  // namespace unity
