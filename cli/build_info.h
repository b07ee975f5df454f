// What `unity --version` says: version, commit, build, and which optional parts this build has.
#pragma once

#include <string>

namespace unity::cli {

std::string build_info();
std::string build_version();  // "1.0.0"
std::string build_commit();   // "0123456789ab-dirty", or "unknown"

}  // namespace unity::cli
