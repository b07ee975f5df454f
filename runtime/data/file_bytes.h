// A file as bytes: mapped, or unpacked in memory when it is a gzip file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace unity {

class FileBytes {
 public:
  // InputError names the path: it cannot be read, or its gzip stream is damaged, cut off, or unpacks to
  // more than half of this machine's memory.
  explicit FileBytes(const std::string& path, bool unpack = true);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  std::span<const std::uint8_t> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  std::string unpacked_;
  void* mapped_ = nullptr;
  std::span<const std::uint8_t> bytes_;
};

// What a gzip file holds. InputError: damaged, cut off, or more than `largest` bytes, which are not kept then.
std::string unpack_gzip(const std::string& path, std::size_t largest);

// The first `count` bytes, or fewer in a shorter file; of a gzip file, the first unpacked ones. Empty if unreadable.
std::string first_bytes(const std::string& path, std::size_t count);

}  // namespace unity
