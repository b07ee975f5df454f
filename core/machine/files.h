// Where topology and device files are. Internal to this folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/machine/topology.h"

namespace unity {

std::filesystem::path topology_folder();
// The file of a topology, of which a name or a path is given. InputError for an unknown name.
std::filesystem::path topology_path(const std::string& name_or_path);
// Stems of the YAML files of a folder, sorted; empty when there is none.
std::vector<std::string> yaml_names(const std::filesystem::path& folder);
DeviceSpec load_device_file(const std::string& file);

}  // namespace unity
