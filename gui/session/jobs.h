// Work in the background. A job runs on a thread of the pool, or on one of its own, and returns what is to happen on
// the UI thread, where poll() does it: so that only one thread ever changes the session.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace unity::gui {

// What a job and those who wait for it share. Thread-safe.
class JobState {
 public:
  explicit JobState(std::string name, bool quiet) : name_(std::move(name)), quiet_(quiet) {}
  const std::string& name() const { return name_; }
  bool quiet() const { return quiet_; }  // not listed in the status line: layouts and the like
  void cancel() { stop_ = true; }
  bool cancelled() const { return stop_; }
  const std::atomic<bool>* stop() const { return &stop_; }
  void progress(double fraction, const std::string& text = {});
  double fraction() const { return fraction_; }
  std::string text() const;
  bool done() const { return done_; }

 private:
  friend class Jobs;
  std::string name_;
  bool quiet_;
  std::atomic<bool> stop_{false}, done_{false};
  std::atomic<double> fraction_{0};
  mutable std::mutex mutex_;
  std::string text_;
};

using Job = std::shared_ptr<JobState>;

class Jobs {
 public:
  using Completion = std::function<void()>;
  using Work = std::function<Completion(JobState&)>;
  using Failure = std::function<void(const std::string&)>;

  explicit Jobs(int threads = 3);
  ~Jobs();  // cancels all and waits for what runs
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  // The completion of a cancelled job is dropped. An exception's text goes to `failed`, on the UI thread.
  Job submit(std::string name, Work work, Failure failed, bool quiet = false);
  // The same on a thread of its own: searches take minutes, and what others wait for must not stand behind them.
  Job submit_long(std::string name, Work work, Failure failed);

  // On the UI thread: does what finished jobs ask for. Whether there was any.
  bool poll();
  bool idle() const;                 // nothing waits, runs or has to be polled
  std::vector<Job> running() const;  // those that are not quiet, oldest first
  // Called on a worker's thread when there is something to poll, to wake a sleeping window.
  void on_ready(std::function<void()> wake);

 private:
  struct Entry {
    Job state;
    Work work;
    Failure failed;
  };
  void run();
  void carry_out(const Entry& entry);

  mutable std::mutex mutex_;
  std::condition_variable more_;
  std::deque<Entry> waiting_;
  std::vector<Job> active_;
  std::vector<Completion> ready_;
  std::function<void()> wake_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
  std::vector<std::pair<Job, std::thread>> long_;
};

}  // namespace unity::gui
