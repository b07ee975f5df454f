#include "runtime/cuda/resources.h"

#include <algorithm>

namespace unity::cuda {

Memory::Memory(std::int64_t bytes) {
  auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
  UNITY_CUDA_CHECK(cudaMalloc(&data_, size));
  UNITY_CUDA_CHECK(cudaMemset(data_, 0, size));
}

Memory::~Memory() {
  if (data_) cudaFree(data_);
}

}  // namespace unity::cuda
