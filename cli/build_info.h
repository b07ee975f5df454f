// What `unity --version` says: version, commit, build, and which optional parts this build has.
#pragma once

#include <string>

namespace unity::cli {

std::string build_info();

}  // namespace unity::cli
