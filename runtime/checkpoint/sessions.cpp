#include "runtime/checkpoint/sessions.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/text.h"

namespace unity {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kLineBytes = 256;  // the line's end included; lines of one length can be rewritten in place
constexpr std::chrono::milliseconds kBetweenSigns{1};

fs::path file_of(const fs::path& folder) { return folder / "sessions.jsonl"; }

std::string line_of(const Session& s) {
  std::string line = fmt::format(
      R"({{"started": {:.3f}, "seconds": {:.6f}, "first_step": {}, "step": {}, "step_seconds": {:.6f}, "checkpoint_seconds": {:.6f}}})",
      s.started, s.seconds, s.first_step, s.step, s.step_seconds, s.checkpoint_seconds);
  line.resize(kLineBytes - 1, ' ');
  return line + "\n";
}

// Whole, or false with the reason in errno: a write that comes to a limit is cut short before it fails.
bool write_line(int descriptor, const std::string& line, std::int64_t place) {
  for (std::size_t done = 0; done < line.size();) {
    ssize_t written = ::pwrite(descriptor, line.data() + done, line.size() - done, place + static_cast<off_t>(done));
    if (written < 0) return false;
    done += static_cast<std::size_t>(written);
  }
  return true;
}

double seconds_between(SessionLog::Clock::time_point from, SessionLog::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

std::vector<Session> read_sessions(const fs::path& folder) {
  std::vector<Session> sessions;
  if (!fs::exists(file_of(folder))) return sessions;
  std::istringstream text(read_file(file_of(folder)));
  for (std::string line; std::getline(text, line);) {
    json root = line.size() < kLineBytes ? json::parse(line, nullptr, false) : json();
    try {
      Session s{root.at("started"), root.at("seconds"),      root.at("first_step"),
                root.at("step"),    root.at("step_seconds"), root.at("checkpoint_seconds")};
      sessions.push_back(s);
    } catch (const json::exception&) {
    }
  }
  return sessions;
}

EffectiveTime effective_time(const std::vector<Session>& sessions) {
  EffectiveTime all;
  std::int64_t from = sessions.empty() ? 0 : sessions.back().step;  // steps below are kept
  for (auto s = sessions.rbegin(); s != sessions.rend(); ++s) {
    std::int64_t done = s->step - s->first_step;
    std::int64_t kept = std::clamp<std::int64_t>(from - s->first_step, 0, std::max<std::int64_t>(done, 0));
    double share = done > 0 ? static_cast<double>(kept) / static_cast<double>(done) : 1;  // it may have evaluated
    ++all.sessions;
    all.steps += kept, all.lost_steps += done - kept;
    all.seconds += s->seconds;
    all.step_seconds += share * s->step_seconds, all.lost_seconds += (1 - share) * s->step_seconds;
    all.checkpoint_seconds += s->checkpoint_seconds;
    from = std::min(from, s->first_step);
  }
  return all;
}

SessionLog::SessionLog(const fs::path& folder, Clock::time_point began, std::int64_t first_step,
                       std::chrono::milliseconds patience)
    : began_(began) {
  const fs::path path = file_of(folder);
  auto give_up = [&](const std::string& why) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw InputError(why);
  };
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) give_up(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(errno)));
  for (auto until = Clock::now() + patience; ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0;) {
    if (errno != EWOULDBLOCK) break;  // a file system without locks
    if (Clock::now() >= until)
      give_up(
          fmt::format("{}: another run is writing checkpoints here, expected a folder of its own, or that run to end",
                      folder.string()));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  double ago = seconds_between(began, Clock::now());
  session_.started = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count() - ago;
  session_.first_step = session_.step = first_step;
  // A line that was cut off, as by a full disk, is overwritten.
  place_ =
      ::lseek(descriptor_, 0, SEEK_END) / static_cast<std::int64_t>(kLineBytes) * static_cast<std::int64_t>(kLineBytes);
  if (!write_line(descriptor_, line_of(session_), place_))
    give_up(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(errno)));
  written_ = Clock::now();
}

SessionLog::~SessionLog() { ::close(descriptor_); }

void SessionLog::note(std::int64_t step, double step_seconds, double checkpoint_seconds, bool now) {
  session_.step = step, session_.step_seconds = step_seconds, session_.checkpoint_seconds = checkpoint_seconds;
  if (now || Clock::now() - written_ >= kBetweenSigns) write();
}

// Its place in the file is taken, so that this does not fail for want of space; if it does, the log is all that is
// lost.
void SessionLog::write() {
  written_ = Clock::now();
  session_.seconds = seconds_between(began_, written_);
  write_line(descriptor_, line_of(session_), place_);
}

}  // namespace unity
