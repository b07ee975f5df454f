#include "core/base/checksum.h"

#include <nlohmann/json.hpp>
#include <zlib.h>

#include "core/base/error.h"

namespace unity {

using nlohmann::json;

std::string checksum_of(std::string_view text) {
  return fmt::format("{:08x}", crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

std::string checksum_differs(const std::string& found, const std::string& expected) {
  return fmt::format("the checksum of its content is {}, expected {}; the file has changed since it was written", found,
                     expected);
}

void add_checksum(json& root) {
  root.erase("checksum");
  root["checksum"] = checksum_of(root.dump());
}

void take_checksum(json& root, const std::string& file, Checksum how) {
  auto there = root.find("checksum");
  if (there == root.end() && how == Checksum::when_there) return;
  const json expected = there == root.end() ? json() : *there;
  root.erase("checksum");
  std::string found;
  try {
    found = checksum_of(root.dump());
  } catch (const json::exception&) {  // not UTF-8
    found = "none, as it is not UTF-8";
  }
  if (expected == found) return;
  throw_input_error("{}: {}{}", file,
                    checksum_differs(found, expected.dump(-1, ' ', false, json::error_handler_t::replace)),
                    how == Checksum::when_there ? " (remove its key 'checksum' where that was meant)" : "");
}

}  // namespace unity
