// Where topology and device files are. Internal to this folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/machine/topology.h"

namespace unity {

std::filesystem::path topology_folder();
// Stems of the YAML files of a folder, sorted; empty when there is none.
std::vector<std::string> yaml_names(const std::filesystem::path& folder);
DeviceSpec load_device_file(const std::string& file);

}  // namespace unity
