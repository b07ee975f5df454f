#include "runtime/cpu/team.h"

#include <system_error>

#include "core/base/error.h"
#include "runtime/comm/wait.h"

namespace unity::cpu {

Team::Team(int helpers) {
  try {
    for (int i = 0; i < helpers; ++i) threads_.emplace_back([this] { serve(); });
  } catch (const std::system_error& error) {
    const std::size_t begun = threads_.size();
    quit();
    throw_input_error("--threads: the system starts {} of {} threads of a device: {}; expected fewer", begun + 1,
                      helpers + 1, error.what());
  }
}

Team::~Team() { quit(); }

void Team::quit() {
  {
    std::lock_guard lock(mutex_);
    quit_ = true;
  }
  wake_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void Team::Job::work() {
  for (std::int64_t c = next.fetch_add(1); c < chunks; c = next.fetch_add(1)) {
    try {
      call(body, n * c / chunks, n * (c + 1) / chunks);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }
}

void Team::serve() {
  std::uint64_t seen = 0;
  while (true) {
    wait_briefly([&] { return generation_.load() != seen; });
    std::unique_lock lock(mutex_);
    ++sleeping_;
    wake_.wait(lock, [&] { return quit_ || generation_.load() != seen; });
    --sleeping_;
    if (quit_) return;
    seen = generation_.load();
    Job* job = job_;
    if (!job) continue;  // done without this helper
    active_.fetch_add(1);
    lock.unlock();
    job->work();
    lock.lock();
    if (active_.fetch_sub(1) == 1) idle_.notify_one();
  }
}

void Team::run(std::int64_t n, std::int64_t chunks, void* body, Call call) {
  Job job{n, chunks, body, call, {}, {}, {}};
  bool asleep = false;
  {
    std::lock_guard lock(mutex_);
    job_ = &job;
    generation_.fetch_add(1);
    asleep = sleeping_ > 0;
  }
  if (asleep) wake_.notify_all();
  job.work();
  {
    std::lock_guard lock(mutex_);
    job_ = nullptr;
  }
  wait_briefly([&] { return active_.load() == 0; });
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return active_.load() == 0; });
  if (job.failure) std::rethrow_exception(job.failure);
}

}  // namespace unity::cpu
