#include "core/base/replacing_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"

namespace unity {

namespace fs = std::filesystem;

namespace {

constexpr int kMostLinks = 40;  // as the kernel follows

// 0 or the reason, as errno has it.
int fsync_folder(const fs::path& folder) {
  int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  int why = ::fsync(descriptor) != 0 ? errno : 0;
  ::close(descriptor);
  return why;
}

}  // namespace

ReplacingFile::ReplacingFile(fs::path path) : path_(std::move(path)), target_(path_) {
  std::error_code error;
  if (fs::is_symlink(path_, error) && fs::exists(path_, error)) {
    target_ = fs::weakly_canonical(path_, error);
    if (error) target_ = path_;
  }
  // Also to a file that is not there yet, of which the system knows no canonical path.
  for (int links = 0; !fs::exists(target_, error) && fs::is_symlink(target_, error) && links < kMostLinks; ++links) {
    const fs::path to = fs::read_symlink(target_, error);
    if (error) break;
    target_ = to.is_absolute() ? to : target_.parent_path() / to;
  }
  if (!fs::exists(target_, error) && fs::is_symlink(target_, error)) failed(ELOOP);
  fs::file_status status = fs::status(target_, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    descriptor_ = fs::is_directory(status) ? (errno = EISDIR, -1) : ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) failed(errno);
    return;
  }
  if (open_shared_name()) return;
  beside_ = target_;
  beside_ += fmt::format(".{}.unfinished.tmp", gettid());
  descriptor_ = ::open(beside_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor_ < 0) failed(errno);
}

ReplacingFile::~ReplacingFile() { discard(); }

// PATH.unfinished.tmp, when no other process is writing it, and it is nothing but a leftover. The lock ends with the
// descriptor.
bool ReplacingFile::open_shared_name() {
  beside_ = target_;
  beside_ += ".unfinished.tmp";
  while (true) {
    descriptor_ = ::open(beside_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (descriptor_ < 0) return false;
    struct stat opened {
    }, named{};
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) std::remove(beside_.c_str());  // no locks here: nobody uses this name
      break;
    }
    if (::fstat(descriptor_, &opened) != 0) break;
    // Between opening and locking, another process may have finished it and given it its name.
    bool there =
        ::lstat(beside_.c_str(), &named) == 0 && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
    if (there) {
      if (S_ISREG(opened.st_mode) && opened.st_nlink == 1 && ::ftruncate(descriptor_, 0) == 0) return true;
      break;
    }
    ::close(descriptor_);
  }
  ::close(descriptor_);
  descriptor_ = -1;
  return false;
}

void ReplacingFile::write(const void* data, std::size_t size) {
  UNITY_CHECK(descriptor_ >= 0, "{}: written to after its end", path_.string());
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t written = ::write(descriptor_, next, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) failed(errno);
    next += written, size -= static_cast<std::size_t>(written);
  }
}

void ReplacingFile::commit() {
  UNITY_CHECK(descriptor_ >= 0, "{}: ended twice", path_.string());
  if (beside_.empty()) {
    int closed = ::close(descriptor_);
    descriptor_ = -1;
    if (closed != 0) failed(errno);
    return;
  }
  // Renamed while it is locked: another process that waits for the lock then finds another file at the name, or none.
  if (::fsync(descriptor_) != 0 || std::rename(beside_.c_str(), target_.c_str()) != 0) failed(errno);
  int closed = ::close(descriptor_);
  int why = errno;
  descriptor_ = -1;
  beside_.clear();
  if (closed != 0) failed(why);
  fs::path folder = target_.parent_path();
  fsync_folder(folder.empty() ? "." : folder);  // not every file system can; the file itself is durable
}

void ReplacingFile::discard() {
  if (descriptor_ < 0) return;
  if (!beside_.empty()) std::remove(beside_.c_str());
  ::close(descriptor_);
  descriptor_ = -1;
}

void ReplacingFile::failed(int why) {
  discard();
  throw_input_error("{}: cannot be written: {}", path_.string(), std::strerror(why));
}

void synchronize_folder(const fs::path& folder) {
  if (int why = fsync_folder(folder); why != 0)
    throw_input_error("{}: cannot be written: {}", folder.string(), std::strerror(why));
}

}  // namespace unity
