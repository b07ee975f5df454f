// Bounds on files whose parsers, or the destructors of what they make, go down one call for each level.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace unity {

constexpr int kDeepestFile = 100;  // lists in lists in objects ..; Unity's own files have fewer than ten

// InputError "file:line: ..." where a JSON text is nested deeper than that.
void refuse_deep_json(std::string_view text, const std::string& file);

// InputError where a text that should be a JSON object does not begin as one. Empty ones pass: they are cut off.
void refuse_no_json(std::string_view text, const std::string& file, const std::string& expected);

// InputError "file:line: ..." for a text whose reader stopped at this byte.
[[noreturn]] void refuse_cut_json(std::string_view text, std::size_t byte, const std::string& file);

}  // namespace unity
