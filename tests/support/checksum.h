// The text of a file without its checksum, as a person who changes it on purpose leaves it.
#pragma once

#include <string>

namespace files {

inline std::string without_checksum(std::string text) {
  std::size_t key = text.find("checksum");
  if (key == std::string::npos) return text;
  std::size_t begin = text.rfind('\n', key), end = text.find('\n', key);
  return text.erase(begin, end - begin);
}

}  // namespace files
