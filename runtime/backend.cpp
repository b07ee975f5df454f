#include "runtime/backend.h"

#include <filesystem>

#include "core/base/text.h"
#include "runtime/plugin.h"

namespace unity {

std::unique_ptr<Backend> make_cpu_backend(const Program& program, Processes& processes, const BackendOptions& options);

std::unique_ptr<Backend> make_backend(const std::string& name, const Program& program, Processes& processes,
                                      const BackendOptions& options) {
  if (name == "cpu") return make_cpu_backend(program, processes, options);
  std::error_code error;
  if (name.empty() || name.find('/') != std::string::npos ||
      (name != "cuda" && !std::filesystem::exists(plugin_path(name), error)))
    throw_input_error("backend '{}' is not known{}", name, suggestion(name, {"cpu", "cuda"}));
  using Make = Backend* (*)(int version, const Program&, Processes&, const BackendOptions&);
  std::string how = name == "cuda"
                        ? "install the CUDA toolkit 12 or newer with cuDNN and NCCL, configure anew and build"
                        : "build the plug-in anew";
  auto make = reinterpret_cast<Make>(open_plugin(name, fmt::format("unity_make_{}_backend", name), how));
  std::unique_ptr<Backend> backend(make(kPluginVersion, program, processes, options));
  if (!backend) throw_input_error("{}: the plug-in was built with another version of unity; build anew", name);
  return backend;
}

}  // namespace unity
