// Bounds on files whose parsers, or the destructors of what they make, go down one call for each level.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"

namespace unity {

constexpr int kDeepestFile = 100;  // lists in lists in objects ..; Unity's own files have fewer than ten

// InputError "file:line: ..." where a JSON text is nested deeper than that.
void refuse_deep_json(std::string_view text, const std::string& file);

}  // namespace unity
