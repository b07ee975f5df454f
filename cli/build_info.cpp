#include "cli/build_info.h"

#include <filesystem>

#include "commit.h"
#include "core/base/text.h"
#include "runtime/plugin.h"

namespace unity::cli {
namespace {

// A part that is a plug-in may have been built and yet not be installed here.
std::string plugin_part(const std::string& name, const std::string& built) {
  std::error_code error;
  std::filesystem::path path = plugin_path(name);
  if (std::filesystem::exists(path, error)) return built.empty() ? "found beside this build" : built;
  return built.empty() ? "absent" : fmt::format("{}, but {} is missing", built, path.string());
}

std::string part(const std::string& built) { return built.empty() ? "absent" : built; }

}  // namespace

std::string build_version() { return UNITY_VERSION; }
std::string build_commit() { return UNITY_COMMIT; }

std::string build_info() {
  std::string text = fmt::format("unity {}\n", UNITY_VERSION);
  auto line = [&](const char* what, const std::string& value) { text += fmt::format("{:<18}{}\n", what, value); };
  line("commit", UNITY_COMMIT);
  line("build", UNITY_BUILD_TYPE);
  line("compiler", UNITY_COMPILER);
  line("CUDA", plugin_part("cuda", UNITY_CUDA_VERSION));
  line("MPI", plugin_part("mpi", UNITY_MPI_VERSION));
  line("GUI", part(UNITY_GUI_VERSION));
  line("Z3", part(UNITY_Z3_VERSION));
  line("oneDNN", part(UNITY_ONEDNN_VERSION));
  line("ONNX import", part(UNITY_ONNX_VERSION));
  line("Chakra export", part(UNITY_CHAKRA_VERSION));
  line("NCCL topologies", part(UNITY_TINYXML2_VERSION));
  line("mimalloc", part(UNITY_MIMALLOC_VERSION));
  text.pop_back();
  return text;
}

}  // namespace unity::cli
