// A file that appears whole or not at all, whenever the process, the disk or the machine gives up.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace unity {

// Written as PATH.unfinished.tmp beside; commit() makes it durable and gives it its name. Without commit(), an old file
// at the path stays as it was. What a killed process leaves as PATH.unfinished.tmp the next one that writes the path
// takes over, so such files do not accumulate; while another process is writing it, its name has the number of the
// thread, too. A symbolic link is followed. What is no regular file (/dev/stdout, a pipe) is written to as it is.
class ReplacingFile {
 public:
  // InputError "path: cannot be written: reason", as from the other calls.
  explicit ReplacingFile(std::filesystem::path path);
  ~ReplacingFile();
  ReplacingFile(const ReplacingFile&) = delete;
  ReplacingFile& operator=(const ReplacingFile&) = delete;

  void write(const void* data, std::size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  bool open_shared_name();
  void discard();
  [[noreturn]] void failed(int why);

  std::filesystem::path path_;             // as given, for messages
  std::filesystem::path target_, beside_;  // beside_ is empty for what is written to as it is
  int descriptor_ = -1;
};

// Makes the names in a folder durable. InputError when that is not possible.
void synchronize_folder(const std::filesystem::path& folder);

}  // namespace unity
