// For implementations only: the libraries' handles.
#pragma once

#include "runtime/cuda/check.h"
#include "runtime/cuda/library/library.h"
#include "runtime/cuda/library/library_check.h"

namespace unity::cuda {

struct Libraries::Handles {
  Handles();
  ~Handles();
  // Sets the stream.
  cudnnHandle_t cudnn_on(Stream stream);

  cublasLtHandle_t cublas = nullptr;
  cudnnHandle_t cudnn = nullptr;

 private:
  Stream current_ = nullptr;
};

}  // namespace unity::cuda
