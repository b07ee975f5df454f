#include "runtime/backend.h"

#include <filesystem>

#include "core/base/text.h"
#include "runtime/plugin.h"

namespace unity {

std::unique_ptr<Backend> make_cpu_backend(const Program& program, Processes& processes, const BackendOptions& options);

DeviceDescription describe_cpu();

namespace {

// The entry point of a backend that is a plug-in; `symbol` has its name where {} stands.
void* entry_point(const std::string& name, const char* symbol) {
  std::error_code error;
  if (name.empty() || name.find('/') != std::string::npos ||
      (name != "cuda" && !std::filesystem::exists(plugin_path(name), error)))
    throw_input_error("backend '{}' is not known{}", name, suggestion(name, {"cpu", "cuda"}));
  std::string how = name == "cuda"
                        ? "install the CUDA toolkit 12 or newer with cuDNN and NCCL, configure anew and build"
                        : "build the plug-in anew";
  return open_plugin(name, fmt::format(fmt::runtime(symbol), name), how);
}

[[noreturn]] void refuse_version(const std::string& name) {
  throw_input_error("{}: the plug-in was built with another version of unity; build anew", name);
}

}  // namespace

std::unique_ptr<Backend> make_backend(const std::string& name, const Program& program, Processes& processes,
                                      const BackendOptions& options) {
  if (name == "cpu") return make_cpu_backend(program, processes, options);
  using Make = Backend* (*)(int version, const Program&, Processes&, const BackendOptions&);
  auto make = reinterpret_cast<Make>(entry_point(name, "unity_make_{}_backend"));
  std::unique_ptr<Backend> backend(make(kPluginVersion, program, processes, options));
  if (!backend) refuse_version(name);
  return backend;
}

DeviceDescription describe_device(const std::string& backend) {
  if (backend == "cpu") return describe_cpu();
  using Describe = bool (*)(int version, DeviceDescription& device);
  auto describe = reinterpret_cast<Describe>(entry_point(backend, "unity_describe_{}_device"));
  DeviceDescription device;
  if (!describe(kPluginVersion, device)) refuse_version(backend);
  return device;
}

}  // namespace unity
