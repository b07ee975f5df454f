// YAML files of people, read within bounds. Only for sources that read files: it brings in yaml-cpp.
#pragma once

#include <string>

#include <yaml-cpp/yaml.h>

#include "core/base/error.h"

namespace unity {

// The document, a null node for an empty text. InputError "file:line:column: ..": malformed YAML; bytes that are not
// UTF-8; lists and maps nested some hundred levels deep; aliases ("*name") that would make the document grow beyond a
// million nodes or kDeepestFile levels (nesting.h), or that lead into themselves; a key that is in one map twice.
YAML::Node read_yaml(const std::string& text, const std::string& file);

}  // namespace unity
