// Small helpers on names and files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace unity {

// The candidate with the smallest edit distance, if that is at most a third of the name's length (at least
// 2; 1 for names below 4 letters); else empty.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

// " (did you mean 'x'?)" or, when nothing is near, " (known: a, b, c)".
std::string suggestion(std::string_view name, const std::vector<std::string>& candidates);

// "a, b, c"
std::string join(const std::vector<std::string>& parts, std::string_view separator = ", ");

// The whole file. InputError names the path and the reason.
std::string read_file(const std::filesystem::path& path);

// Writes beside the path and renames, so that a file is never half-written. InputError when that is not possible.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

}  // namespace unity
