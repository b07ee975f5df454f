// The machine that this program runs on.
#pragma once

#include <filesystem>

#include "core/base/units.h"

namespace unity {

// Physical memory, or less where this process is given less of it (a container's limit, a batch system's).
Bytes memory_of_this_machine();

// The least limit of the control groups that `membership` (as /proc/self/cgroup) names and of those around them, below
// `mount` (as /sys/fs/cgroup), of either version; the largest number where there is none. Source: cgroups(7).
Bytes memory_limit_of_groups(const std::filesystem::path& membership, const std::filesystem::path& mount);

}  // namespace unity
