#include "runtime/cuda/resources.h"

#include <algorithm>
#include <string>

#include "core/base/units.h"

namespace unity::cuda {

Memory::Memory(std::int64_t bytes, Contents contents) {
  auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
  try {
    UNITY_CUDA_CHECK(cudaMalloc(&data_, size));
  } catch (const OutOfDeviceMemory& error) {
    throw OutOfDeviceMemory(std::string(error.what()) + "; " + to_string(Bytes{bytes}) + " were asked for");
  }
  if (contents == Contents::any) return;
  // The default stream is not ordered with those that do not block.
  UNITY_CUDA_CHECK(cudaMemsetAsync(data_, 0, size, nullptr));
  UNITY_CUDA_CHECK(cudaStreamSynchronize(nullptr));
}

Memory::~Memory() {
  if (data_) cudaFree(data_);
}

}  // namespace unity::cuda
