// Return codes of cuBLAS and cuDNN become exceptions that name the call; the caller adds operator and shapes.
// OutOfDeviceMemory where that is the reason.
#pragma once

#include <stdexcept>
#include <string>

#include <cublasLt.h>
#include <cudnn_graph.h>

#include "runtime/cuda/check.h"

namespace unity::cuda {

struct LibraryError : std::runtime_error {
  LibraryError(const std::string& what, bool declines) : std::runtime_error(what), unsupported(declines) {}
  // The library does not do what was asked for, or says that it makes no sense: while a plan is sought, a reason to
  // decline.
  bool unsupported;
};

inline void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string what =
      std::string(call) + ": " + cublasLtGetStatusName(status) + ": " + cublasLtGetStatusString(status);
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfDeviceMemory(what);
  throw LibraryError(what, status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE);
}

inline void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char reason[1024] = "";
  cudnnGetLastErrorString(reason, sizeof reason);
  const std::string what = std::string(call) + ": " + cudnnGetErrorString(status) + ": " + reason;
  if (status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) throw OutOfDeviceMemory(what);
  throw LibraryError(what, CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED ||
                               CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_BAD_PARAM);
}

}  // namespace unity::cuda

#define UNITY_LIBRARY_CHECK(call) ::unity::cuda::check((call), #call)
