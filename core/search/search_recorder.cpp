#include "core/search/search_recorder.h"

#include <ctime>

namespace unity {
namespace {

std::int64_t thread_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

SearchRecorder::Timer::Timer(std::atomic<std::int64_t>& sum) : sum_(sum), start_(thread_nanoseconds()) {}
SearchRecorder::Timer::~Timer() { sum_ += thread_nanoseconds() - start_; }

void SearchRecorder::Queue::say(SearchQueue now) {
  record_.to_score_ += now.to_score - said_.to_score;
  record_.to_expand_ += now.to_expand - said_.to_expand;
  said_ = now;
}

SearchRecorder::SearchRecorder(const std::atomic<bool>* stop, double time_limit)
    : stop_(stop), time_limit_(time_limit) {}

SearchRecorder::SearchRecorder(Beside beside)
    : stop_(beside.other.stop_), time_limit_(beside.other.time_limit_), start_(beside.other.start_) {}

void SearchRecorder::add(const SearchRecorder& beside) {
  for (std::size_t r = 0; r < kLeftOutReasons; ++r) left_out_[r] += beside.left_out_[r];
  for (std::size_t l = 0; l < kSearchLevels; ++l) nanoseconds_[l] += beside.nanoseconds_[l];
  if (beside.stopped_) stopped_ = true;
  parts_solved_ += beside.parts_solved_, parts_reused_ += beside.parts_reused_;
}

void SearchRecorder::found(std::int64_t candidates, Picoseconds iteration) {
  std::lock_guard lock(best_mutex_);
  if (!best_.empty() && iteration >= best_.back().iteration) return;
  best_.push_back({candidates, iteration});
  best_seconds_.push_back(seconds());
}

bool SearchRecorder::stopping() {
  if (!stopped_ && ((stop_ && *stop_) || (time_limit_ > 0 && seconds() >= time_limit_))) stopped_ = true;
  return stopped_;
}

double SearchRecorder::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

SearchLog SearchRecorder::log() const {
  SearchLog log;
  log.interrupted = stopped_;
  for (std::size_t r = 0; r < kLeftOutReasons; ++r) log.left_out[r] = left_out_[r];
  log.parts_solved = parts_solved_, log.parts_reused = parts_reused_;
  for (std::size_t l = 0; l < kSearchLevels; ++l) log.seconds.level[l] = static_cast<double>(nanoseconds_[l]) * 1e-9;
  std::lock_guard lock(best_mutex_);
  log.best_so_far = best_;
  log.seconds.best_so_far = best_seconds_;
  return log;
}

}  // namespace unity
