// The sessions in which a folder of checkpoints was made: each run that wrote into it or went on from it, how far it
// came and how long that took, also when it was killed. It is the file sessions.jsonl, one line for each, which is
// rewritten in its place while the session lives.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace unity {

struct Session {
  double started = 0;           // seconds since 1970
  double seconds = 0;           // until its last sign of life
  std::int64_t first_step = 0;  // steps done before
  std::int64_t step = 0;        // steps done at the last sign of life
  double step_seconds =
      0;  // of `seconds`, for the steps from first_step on (and what belongs to them: data, evaluation)
  double checkpoint_seconds = 0;
  bool operator==(const Session&) const = default;
};

// What became of the time of all sessions. Steps that a later session did again are lost. What passed between sessions
// is not counted: it is the queue's and whoever starts a run again.
struct EffectiveTime {
  std::int64_t sessions = 0;
  std::int64_t steps = 0, lost_steps = 0;  // kept, and done in vain
  double seconds = 0;                      // of all sessions
  double step_seconds = 0;                 // for the steps that were kept
  double lost_seconds = 0;                 // for those that were not
  double checkpoint_seconds = 0;  // the rest is for starting: the process, the plan, memory, the checkpoint read
  double ratio() const { return seconds > 0 ? step_seconds / seconds : 1; }
};

EffectiveTime effective_time(const std::vector<Session>& sessions);

// Lines that are not whole are left out; none when there is no file.
std::vector<Session> read_sessions(const std::filesystem::path& folder);

// The session that this process is. While it lives, no other process can have one of the folder.
class SessionLog {
 public:
  using Clock = std::chrono::steady_clock;

  // Waits for another process for so long, as one that was killed may take a moment to be gone; InputError when it is
  // still there, or the file cannot be written. `began`: since when the time counts.
  SessionLog(const std::filesystem::path& folder, Clock::time_point began, std::int64_t first_step,
             std::chrono::milliseconds patience = std::chrono::seconds(10));
  ~SessionLog();
  SessionLog(const SessionLog&) = delete;
  SessionLog& operator=(const SessionLog&) = delete;

  // A sign of life; written at most a thousand times a second unless `now`.
  void note(std::int64_t step, double step_seconds, double checkpoint_seconds, bool now = false);

 private:
  void write();

  Session session_;
  Clock::time_point began_, written_;
  int descriptor_ = -1;
  std::int64_t place_ = 0;  // of its line in the file
};

}  // namespace unity
