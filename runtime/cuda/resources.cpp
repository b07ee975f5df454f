#include "runtime/cuda/resources.h"

#include <algorithm>
#include <cstring>

namespace unity::cuda {

Memory::Memory(std::int64_t bytes, Place place) : place_(place) {
  auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
  if (place == Place::host) {
    UNITY_CUDA_CHECK(cudaMallocHost(&data_, size));
    std::memset(data_, 0, size);
  } else {
    UNITY_CUDA_CHECK(cudaMalloc(&data_, size));
    UNITY_CUDA_CHECK(cudaMemset(data_, 0, size));
  }
}

Memory::~Memory() {
  if (data_) place_ == Place::host ? cudaFreeHost(data_) : cudaFree(data_);
}

}  // namespace unity::cuda
