#include "runtime/plugin.h"

#include <cstdlib>

#include <dlfcn.h>

#include "core/base/error.h"

namespace unity {

namespace fs = std::filesystem;

fs::path plugin_path(const std::string& name) {
  std::error_code error;
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path() / "lib" / "unity";
  if (const char* given = std::getenv("UNITY_PLUGINS"); given && *given) folder = given;
  return folder / ("libunity_" + name + ".so");
}

void* open_plugin(const std::string& name, const std::string& symbol, const std::string& how) {
  std::error_code error;
  fs::path path = plugin_path(name);
  if (!fs::exists(path, error))
    throw_input_error("{}: not in this build ({} is missing); {}", name, path.string(), how);
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw_input_error("{}: cannot be opened: {}; {}", name, ::dlerror(), how);
  void* found = ::dlsym(library, symbol.c_str());
  if (!found) throw_input_error("{}: {} has no {}; was it built with this unity?", name, path.string(), symbol);
  return found;
}

}  // namespace unity
