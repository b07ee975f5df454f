#include "runtime/cuda/code.h"

namespace unity::cuda {
namespace {

__global__ void nothing() {}

}  // namespace

cudaError_t code_status() {
  cudaFuncAttributes attributes;
  const cudaError_t status = cudaFuncGetAttributes(&attributes, nothing);
  cudaGetLastError();  // or the next call would report it
  return status;
}

}  // namespace unity::cuda
