// Paths that stand in files: they must not lead out of the folder of the file that names them.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/error.h"

namespace unity {

// folder/name, which need not exist; an empty folder is the working directory. Error when the name is empty or
// absolute, or leads elsewhere: by `..`, or because it is, or passes, a symbolic link to outside.
Result<std::filesystem::path> path_inside(const std::filesystem::path& folder, const std::string& name);

}  // namespace unity
