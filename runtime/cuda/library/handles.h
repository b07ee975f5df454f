// For implementations only: the libraries' handles.
#pragma once

#include "runtime/cuda/check.h"
#include "runtime/cuda/library/library.h"
#include "runtime/cuda/library/library_check.h"

namespace unity::cuda {

// Made when they are first asked for: that takes a while, and many Programs need one of them or none.
struct Libraries::Handles {
  Handles() = default;
  ~Handles();
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  cublasLtHandle_t cublas();
  cudnnHandle_t cudnn();
  // Sets the stream.
  cudnnHandle_t cudnn_on(Stream stream);

 private:
  cublasLtHandle_t cublas_ = nullptr;
  cudnnHandle_t cudnn_ = nullptr;
  Stream current_ = nullptr;
};

}  // namespace unity::cuda
