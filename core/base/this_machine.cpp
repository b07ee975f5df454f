#include "core/base/this_machine.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

#include <unistd.h>

namespace unity {
namespace {

// Of a file that holds a number of bytes, or "max".
std::int64_t limit_in(const std::filesystem::path& file) {
  std::int64_t bytes = 0;
  std::ifstream in(file);
  return in >> bytes ? bytes : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

Bytes memory_limit_of_groups(const std::filesystem::path& membership, const std::filesystem::path& mount) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::ifstream in(membership);
  for (std::string line; std::getline(in, line);) {  // "number:controllers:/path"; of version 2 "0::/path"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
    const bool unified = controllers == ",,";
    if (!unified && controllers.find(",memory,") == std::string::npos) continue;
    const std::filesystem::path root = unified ? mount : mount / "memory";
    std::filesystem::path group = std::filesystem::path(line.substr(second + 1)).relative_path().lexically_normal();
    for (;; group = group.parent_path()) {  // a container may see its own group as the root
      least = std::min(least, limit_in(root / group / (unified ? "memory.max" : "memory.limit_in_bytes")));
      if (group.empty()) break;
    }
  }
  return {least};
}

Bytes memory_of_this_machine() {
  static const Bytes limit = memory_limit_of_groups("/proc/self/cgroup", "/sys/fs/cgroup");
  return std::min(limit, Bytes{sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE)});
}

}  // namespace unity
