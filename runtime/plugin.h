// Parts of Unity that need libraries which not every machine has (MPI, CUDA) are shared libraries opened when asked
// for.
#pragma once

#include <filesystem>
#include <string>

namespace unity {

// Where a plug-in has to be: in UNITY_PLUGINS (a folder) where that is set, else in `../lib/unity` beside the
// executable.
std::filesystem::path plugin_path(const std::string& name);

// A plug-in's entry point.
// InputError when the plug-in is not there or does not open: says why, and `how` to get it.
void* open_plugin(const std::string& name, const std::string& symbol, const std::string& how);

// The plug-in's interface; both sides must have been built from the same sources.
inline constexpr int kPluginVersion = 8;

}  // namespace unity
