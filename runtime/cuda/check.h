// Return codes of CUDA's libraries become exceptions that name the call; the backend adds the task and its shapes.
#pragma once

#include <stdexcept>
#include <string>

#include <cuda_runtime_api.h>

namespace unity::cuda {

// Device memory ran out; whoever allocates says how much was asked for.
struct OutOfDeviceMemory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  std::string what = std::string(call) + ": " + cudaGetErrorName(status) + ": " + cudaGetErrorString(status);
  if (status == cudaErrorMemoryAllocation) throw OutOfDeviceMemory(what);
  throw std::runtime_error(what);
}

}  // namespace unity::cuda

#define UNITY_CUDA_CHECK(call) ::unity::cuda::check((call), #call)
