// Return codes of NCCL become exceptions that name the call; OutOfDeviceMemory where that is the reason.
#pragma once

#include <stdexcept>
#include <string>

#include <fmt/format.h>
#include <nccl.h>

#include "runtime/cuda/check.h"

namespace unity::cuda {

[[noreturn]] inline void throw_nccl(ncclResult_t status, const std::string& call, ncclComm_t communicator) {
  const std::string why = ncclGetLastError(communicator);
  const std::string what = fmt::format("{}: {} ({})", call, ncclGetErrorString(status), why);
  // Its code says no more than that CUDA failed; its words are these.
  for (const char* words : {"out of memory", "Failed to CUDA malloc", "Failed to CUDA calloc"})
    if (why.find(words) != std::string::npos) throw OutOfDeviceMemory(what);
  throw std::runtime_error(what);
}
inline void check_nccl(ncclResult_t status, const char* call) {
  if (status == ncclSuccess || status == ncclInProgress) return;  // which settle() waits for
  throw_nccl(status, call, nullptr);
}
#define UNITY_NCCL_CHECK(call) check_nccl((call), #call)

// One launch for all that `calls` asks for.
template <class Calls>
void in_group(const Calls& calls) {
  UNITY_NCCL_CHECK(ncclGroupStart());
  try {
    calls();
  } catch (...) {
    ncclGroupEnd();  // or this thread's later calls would belong to it
    throw;
  }
  UNITY_NCCL_CHECK(ncclGroupEnd());
}

}  // namespace unity::cuda
