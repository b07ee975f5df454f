#include "runtime/data/file_bytes.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "core/base/error.h"
#include "core/base/this_machine.h"

namespace unity {
namespace {

// Half of the memory: a small file may unpack to a thousand times its size.
std::size_t largest_unpacked() { return static_cast<std::size_t>(memory_of_this_machine().count) / 2; }

}  // namespace

std::string unpack_gzip(const std::string& path, std::size_t largest) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (!file) throw_input_error("{}: cannot be read", path);
  std::string text;
  char buffer[1 << 16];
  int n = 0;
  while (text.size() <= largest && (n = gzread(file, buffer, sizeof buffer)) > 0)
    text.append(buffer, static_cast<std::size_t>(n));
  bool damaged = n < 0;
  damaged = gzclose(file) != Z_OK || damaged;
  if (text.size() > largest)
    throw_input_error("{}: unpacks to more than {}, expected less; a file unpacked by gunzip may be of any size", path,
                      to_string(Bytes{static_cast<std::int64_t>(largest)}));
  if (damaged) throw_input_error("{}: the packed file is damaged or cut off", path);
  return text;
}

FileBytes::FileBytes(const std::string& path, bool unpack) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw_input_error("{}: cannot be read ({})", path, std::generic_category().message(errno));
  struct stat status {};
  bool regular = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  auto size = regular ? static_cast<std::size_t>(status.st_size) : 0;
  if (size > 0) mapped_ = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  int error = errno;
  close(file);
  if (!regular) throw_input_error("{}: is not a file, expected a file of data", path);
  if (mapped_ == MAP_FAILED) {
    mapped_ = nullptr;
    throw_input_error("{}: cannot be mapped ({})", path, std::generic_category().message(error));
  }
  bytes_ = {static_cast<const std::uint8_t*>(mapped_), size};
  if (!unpack || size < 2 || bytes_[0] != 0x1f || bytes_[1] != 0x8b) return;
  munmap(mapped_, size);
  mapped_ = nullptr;
  unpacked_ = unpack_gzip(path, largest_unpacked());
  bytes_ = {reinterpret_cast<const std::uint8_t*>(unpacked_.data()), unpacked_.size()};
}

FileBytes::~FileBytes() {
  if (mapped_) munmap(mapped_, bytes_.size());
}

std::string first_bytes(const std::string& path, std::size_t count) {
  std::string text(count, '\0');
  gzFile file = gzopen(path.c_str(), "rb");  // reads plain files as they are
  int n = file ? gzread(file, text.data(), static_cast<unsigned>(count)) : 0;
  if (file) gzclose(file);
  text.resize(static_cast<std::size_t>(std::max(n, 0)));
  return text;
}

}  // namespace unity
