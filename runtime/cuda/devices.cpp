#include "runtime/cuda/devices.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "core/base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/code.h"

namespace unity::cuda {
namespace {

constexpr int kOldest = 80;

// What CUDA says where it is the code that a GPU does not take.
constexpr cudaError_t kOfCode[] = {
    cudaErrorInvalidDeviceFunction, cudaErrorNoKernelImageForDevice, cudaErrorInvalidPtx,
    cudaErrorUnsupportedPtxVersion, cudaErrorJitCompilerNotFound,    cudaErrorJitCompilationDisabled};

std::string version(int v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); }

}  // namespace

std::vector<Gpu> find_gpus() {
  int driver = 0, runtime = 0, count = 0;
  bool known = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
  UNITY_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  cudaError_t status = cudaGetDeviceCount(&count);
  if (!known || status == cudaErrorInsufficientDriver)
    throw_input_error("backend cuda: {}, expected one for CUDA {} or newer",
                      known ? "the driver is for CUDA " + version(driver) : "found no driver", version(runtime));
  if (status != cudaSuccess || count == 0)
    throw_input_error("backend cuda: no CUDA device{}",
                      status == cudaSuccess ? "" : fmt::format(" ({})", cudaGetErrorString(status)));
  std::vector<Gpu> gpus;
  std::string others;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp p;
    UNITY_CUDA_CHECK(cudaGetDeviceProperties(&p, i));
    int capability = 10 * p.major + p.minor;
    if (capability >= kOldest)
      gpus.push_back({i, p.name, capability, hash_text(std::string_view(p.uuid.bytes, sizeof p.uuid.bytes)),
                      Bytes{p.l2CacheSize}});
    else
      others += fmt::format("{}{} has compute capability {}.{}", others.empty() ? "" : ", ", p.name, p.major, p.minor);
  }
  if (gpus.empty()) throw_input_error("backend cuda: {}, expected {}.{} or newer", others, kOldest / 10, kOldest % 10);
  return gpus;
}

void require_code(const Gpu& gpu) {
  const cudaError_t status = code_status();
  if (std::find(std::begin(kOfCode), std::end(kOfCode), status) == std::end(kOfCode))
    return check(status, "cudaFuncGetAttributes");
  int driver = 0, runtime = 0;
  UNITY_CUDA_CHECK(cudaDriverGetVersion(&driver));
  UNITY_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  throw_input_error("backend cuda: {} takes no code of this build ({}): {}", gpu.name, cudaGetErrorString(status),
                    driver < runtime ? fmt::format("the driver is for CUDA {}, expected one for CUDA {} or newer",
                                                   version(driver), version(runtime))
                                     : fmt::format("expected a build for compute capability {}.{}", gpu.capability / 10,
                                                   gpu.capability % 10));
}

}  // namespace unity::cuda
