// Checksums in files that programs write: whether their content is still what was written.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace unity {

// CRC-32 (as in zlib and gzip), as eight hexadecimal digits. Finds every single bit, and every run of up to 32 bits,
// that has changed.
std::string checksum_of(std::string_view text);

// "the checksum of its content is ..": what is said of a content that is not what the file says of it.
std::string checksum_differs(const std::string& found, const std::string& expected);

// Adds the key "checksum" to an object: that of the rest, keys sorted, no blanks.
void add_checksum(nlohmann::json& root);

enum class Checksum { required, when_there };

// Removes the key again. InputError when it is not that of the rest; when there is none, as older files and those that
// people change have none, only where it is required.
void take_checksum(nlohmann::json& root, const std::string& file, Checksum how);

}  // namespace unity
