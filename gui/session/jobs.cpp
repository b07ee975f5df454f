#include "gui/session/jobs.h"

#include <algorithm>
#include <exception>

namespace unity::gui {

void JobState::progress(double fraction, const std::string& text) {
  fraction_ = fraction;
  std::lock_guard lock(mutex_);
  text_ = text;
}

std::string JobState::text() const {
  std::lock_guard lock(mutex_);
  return text_;
}

Jobs::Jobs(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

Jobs::~Jobs() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (Entry& entry : waiting_) entry.state->cancel();
    for (const Job& job : active_) job->cancel();
    waiting_.clear();
  }
  more_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  for (auto& [job, thread] : long_) thread.join();
}

Job Jobs::submit(std::string name, Work work, Failure failed, bool quiet) {
  auto state = std::make_shared<JobState>(std::move(name), quiet);
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back({state, std::move(work), std::move(failed)});
  }
  more_.notify_one();
  return state;
}

Job Jobs::submit_long(std::string name, Work work, Failure failed) {
  auto state = std::make_shared<JobState>(std::move(name), false);
  std::lock_guard lock(mutex_);
  active_.push_back(state);
  long_.emplace_back(
      state, std::thread([this, entry = Entry{state, std::move(work), std::move(failed)}] { carry_out(entry); }));
  return state;
}

void Jobs::run() {
  for (;;) {
    Entry entry;
    {
      std::unique_lock lock(mutex_);
      more_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      entry = std::move(waiting_.front());
      waiting_.pop_front();
      active_.push_back(entry.state);
    }
    carry_out(entry);
  }
}

void Jobs::carry_out(const Entry& entry) {
  Completion completion;
  try {
    if (!entry.state->cancelled()) completion = entry.work(*entry.state);
  } catch (const std::exception& error) {
    completion = [failed = entry.failed, text = std::string(error.what())] {
      if (failed) failed(text);
    };
  }
  std::function<void()> wake;
  {
    std::lock_guard lock(mutex_);
    active_.erase(std::find(active_.begin(), active_.end(), entry.state));
    ready_.push_back([state = entry.state, completion = std::move(completion)] {
      if (completion && !state->cancelled()) completion();
      state->done_ = true;
    });
    wake = wake_;
  }
  if (wake) wake();
}

bool Jobs::poll() {
  std::vector<Completion> ready;
  {
    std::lock_guard lock(mutex_);
    ready.swap(ready_);
  }
  for (Completion& completion : ready) completion();
  std::erase_if(long_, [](auto& entry) {
    if (!entry.first->done()) return false;
    entry.second.join();
    return true;
  });
  return !ready.empty();
}

bool Jobs::idle() const {
  std::lock_guard lock(mutex_);
  return waiting_.empty() && active_.empty() && ready_.empty();
}

std::vector<Job> Jobs::running() const {
  std::lock_guard lock(mutex_);
  std::vector<Job> jobs = active_;
  for (const Entry& entry : waiting_) jobs.push_back(entry.state);
  std::erase_if(jobs, [](const Job& job) { return job->quiet() || job->cancelled(); });
  return jobs;
}

void Jobs::on_ready(std::function<void()> wake) {
  std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

}  // namespace unity::gui
