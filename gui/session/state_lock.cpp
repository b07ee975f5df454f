#include "gui/session/state_lock.h"

#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/text.h"

namespace unity::gui {

namespace fs = std::filesystem;

StateLock::StateLock(const std::string& path) : file_(path + ".lock") {
  std::error_code error;
  fs::create_directories(fs::absolute(path).parent_path(), error);
  for (;;) {
    descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    // Where no file can be made, writing the state says so.
    if (descriptor_ < 0) return;
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      elsewhere_ = errno == EWOULDBLOCK;
      ::close(std::exchange(descriptor_, -1));
      return;
    }
    // The one who had it may have removed the file meanwhile: then others lock another one.
    struct stat ours = {}, there = {};
    if (::fstat(descriptor_, &ours) == 0 && ::stat(file_.c_str(), &there) == 0 && ours.st_ino == there.st_ino) return;
    ::close(std::exchange(descriptor_, -1));
  }
}

StateLock::~StateLock() {
  if (descriptor_ < 0) return;
  ::unlink(file_.c_str());
  ::close(descriptor_);
}

std::unique_ptr<StateLock> lock_state(std::string& path) {
  constexpr int kMost = 100;
  const fs::path wanted = path;
  for (int n = 2;; ++n) {
    auto lock = std::make_unique<StateLock>(path);
    if (!lock->elsewhere() || n > kMost) return lock;
    path = (wanted.parent_path() / fmt::format("{}-{}{}", wanted.stem().string(), n, wanted.extension().string()));
  }
}

}  // namespace unity::gui
