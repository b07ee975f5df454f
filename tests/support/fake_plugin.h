// The plug-in whose CUDA is played on the host (fake_cuda.h), for tests: what it is told, and small programs for it.
#pragma once

#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <dlfcn.h>

#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/search/search.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/paths.h"
#include "tests/support/plan_builder.h"
#include "tests/support/random_plan.h"
#include "tests/support/stub_cost_model.h"
#include "tests/support/training_run.h"

namespace unity::test {

// The plug-in, and what it lets tests do.
struct Fake {
  Fake() {
    std::string folder = UNITY_BINARY_DIR "/fake_cuda";
    ::setenv("UNITY_PLUGINS", folder.c_str(), 1);
    void* library = ::dlopen((folder + "/libunity_cuda.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) throw std::runtime_error(::dlerror());
    auto find = [&](auto& f, const char* name) {
      f = reinterpret_cast<std::remove_reference_t<decltype(f)>>(::dlsym(library, name));
      if (!f) throw std::runtime_error(::dlerror());
    };
    find(hang, "fake_cuda_hang"), find(nccl_starts, "fake_cuda_nccl_starts");
    find(nccl_version, "fake_cuda_nccl_version"), find(visible, "fake_cuda_visible");
    find(aborted, "fake_cuda_aborted"), find(bytes, "fake_cuda_bytes");
    find(held_aborts, "fake_cuda_held_aborts");
    find(set_score_bytes, "fake_cuda_set_score_bytes");
    find(libraries, "fake_cuda_libraries"), find(library_calls, "fake_cuda_library_calls");
    find(counts, "fake_cuda_counts"), find(driver, "fake_cuda_driver"), find(capability, "fake_cuda_capability");
    find(fail_launch, "fake_cuda_fail_launch"), find(fail_nccl, "fake_cuda_fail_nccl");
    find(environment, "fake_cuda_environment");
    find(launch_error, "fake_cuda_launch_error"), find(code, "fake_cuda_code");
    find(pinned, "fake_cuda_pinned"), find(most_pinned, "fake_cuda_most_pinned"), find(memory, "fake_cuda_memory");
    find(allocate, "cudaMalloc"), find(allocate_pinned, "cudaHostAlloc"), find(copy, "cudaMemcpyAsync");
    find(release, "cudaFree"), find(release_pinned, "cudaFreeHost");
    find(make_stream, "cudaStreamCreateWithFlags"), find(end_stream, "cudaStreamDestroy");
    find(synchronize, "cudaStreamSynchronize");
  }
  decltype(&fake_cuda_hang) hang = nullptr;
  decltype(&fake_cuda_nccl_starts) nccl_starts = nullptr;
  decltype(&fake_cuda_nccl_version) nccl_version = nullptr;
  decltype(&fake_cuda_visible) visible = nullptr;
  decltype(&fake_cuda_aborted) aborted = nullptr;
  decltype(&fake_cuda_held_aborts) held_aborts = nullptr;
  decltype(&fake_cuda_bytes) bytes = nullptr;
  decltype(&fake_cuda_set_score_bytes) set_score_bytes = nullptr;
  decltype(&fake_cuda_libraries) libraries = nullptr;
  decltype(&fake_cuda_library_calls) library_calls = nullptr;
  decltype(&fake_cuda_counts) counts = nullptr;
  decltype(&fake_cuda_driver) driver = nullptr;
  decltype(&fake_cuda_capability) capability = nullptr;
  decltype(&fake_cuda_fail_launch) fail_launch = nullptr;
  decltype(&fake_cuda_fail_nccl) fail_nccl = nullptr;
  decltype(&fake_cuda_environment) environment = nullptr;
  decltype(&fake_cuda_launch_error) launch_error = nullptr;
  decltype(&fake_cuda_code) code = nullptr;
  decltype(&fake_cuda_pinned) pinned = nullptr;
  decltype(&fake_cuda_most_pinned) most_pinned = nullptr;
  decltype(&fake_cuda_memory) memory = nullptr;
  // CUDA's own, whose headers tests do not see.
  int (*allocate)(void**, std::size_t) = nullptr;
  int (*allocate_pinned)(void**, std::size_t, unsigned) = nullptr;
  int (*copy)(void* to, const void* from, std::size_t bytes, int kind, void* stream) = nullptr;
  int (*release)(void*) = nullptr;
  int (*release_pinned)(void*) = nullptr;
  int (*make_stream)(void**, unsigned) = nullptr;
  int (*end_stream)(void*) = nullptr;
  int (*synchronize)(void*) = nullptr;
};
inline const Fake& fake() {
  static const Fake f;
  return f;
}

// mlp-tiny, each weight on all devices.
inline Program data_parallel(int devices, const std::string& optimizer) {
  Pcg serial = normalize(build_model({"mlp-tiny", {{"batch", 12}}}));
  State state{serial, {}, {}};
  if (devices > 1) state = std::move(apply_move(state, {Move::Kind::replicate_all, 0, 0, devices}).value());
  return lower(state.pcg, test::natural_mappings(state.pcg), uniform_topology(devices),
               {true, parse_optimizer(optimizer)})
      .value();
}
inline std::map<std::string, HostTensor> inputs() {
  return random_inputs(build_model({"mlp-tiny", {{"batch", 12}}}), 3);
}

}  // namespace unity::test
