#include "runtime/ready_queue.h"

#include <algorithm>

#include "runtime/comm/wait.h"

namespace unity {

void ReadyQueue::add(ReadyTask task) {
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(task);
    some_ = true;
    wake = sleeping_ > 0;
  }
  if (wake) changed_.notify_one();
}

std::optional<ReadyTask> ReadyQueue::take(std::vector<ReadyTask>& fresh, std::uint32_t lane) {
  std::unique_lock lock(mutex_);
  tasks_.insert(tasks_.end(), fresh.begin(), fresh.end());
  fresh.clear();
  if (tasks_.empty() && !closed_) {
    lock.unlock();
    wait_briefly([&] { return some_.load(); }, patience_);
    lock.lock();
    ++sleeping_;
    changed_.wait(lock, [&] { return closed_ || !tasks_.empty(); });
    --sleeping_;
  }
  if (tasks_.empty()) return std::nullopt;
  auto rank = [&](const ReadyTask& t) { return t.communicates ? 0 : t.lane == lane ? 1 : 2; };
  auto best = std::min_element(tasks_.begin(), tasks_.end(),
                               [&](const ReadyTask& a, const ReadyTask& b) { return rank(a) < rank(b); });
  ReadyTask taken = *best;
  tasks_.erase(best);
  some_ = !tasks_.empty();
  std::size_t wake = std::min(tasks_.size(), static_cast<std::size_t>(sleeping_));
  lock.unlock();
  for (std::size_t i = 0; i < wake; ++i) changed_.notify_one();
  return taken;
}

void ReadyQueue::close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    some_ = true;
  }
  changed_.notify_all();
}

}  // namespace unity
