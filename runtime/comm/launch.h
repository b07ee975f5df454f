// How this process was started: alone, or by mpirun or srun as one of several, as the launcher's variables say. MPI
// does not say it: without its launcher every process is one of one, and trains a whole model.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace unity {

struct Launch {
  std::string launcher;  // "mpirun", for messages
  int rank = 0;
  int size = 0;  // 0: the launcher does not say
  bool several() const { return size > 1 || rank > 0; }
  // "rank 2 of 4 processes of mpirun"
  std::string text() const;
};

// A variable's value by its name, null where it is not set: std::getenv.
using Variables = std::function<const char*(const char*)>;

// Nothing when no launcher started this process: a batch script is none of its job's tasks.
std::optional<Launch> find_launch(const Variables& variable);

// InputError when the process is one of several, each of which would do the whole work for itself.
void refuse_copies(const std::optional<Launch>& launch);
// InputError when MPI found this process alone, although the launcher started several.
void refuse_singleton(const std::optional<Launch>& launch, int found, const std::string& mpi);

// "the start did not end within 300 s ..": how many processes were expected, and what to look at.
std::string start_overdue(const std::optional<Launch>& launch, std::chrono::milliseconds patience);

// Calls `expired`, from a thread of its own, when it still exists after the patience. MPI's start waits for the other
// processes without an end; only the end of the process ends that wait.
class StartLimit {
 public:
  StartLimit(std::chrono::milliseconds patience, std::function<void()> expired);
  ~StartLimit();
  StartLimit(const StartLimit&) = delete;
  StartLimit& operator=(const StartLimit&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace unity
