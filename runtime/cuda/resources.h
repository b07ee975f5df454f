// What the backend holds of a GPU, released where its owner ends.
#pragma once

#include <cstdint>
#include <utility>

#include <cuda_runtime_api.h>

#include "runtime/cuda/check.h"

namespace unity::cuda {

// Makes a GPU the thread's current one, and after that the one before, if the thread has chosen one: no context is made
// on a GPU that the process does not use.
class OnGpu {
 public:
  explicit OnGpu(int ordinal) {
    UNITY_CUDA_CHECK(cudaSetDevice(ordinal));
    before_ = std::exchange(chosen(), ordinal);
  }
  ~OnGpu() {
    chosen() = before_;
    if (before_ != kNone) cudaSetDevice(before_);
  }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  // Until the one around it ends; for good, where there is none.
  static void choose(int ordinal) {
    UNITY_CUDA_CHECK(cudaSetDevice(ordinal));
    chosen() = ordinal;
  }

 private:
  static constexpr int kNone = -1;
  static int& chosen() {
    thread_local int gpu = kNone;
    return gpu;
  }
  int before_ = kNone;
};

// A handle that `Destroy` releases; movable.
template <class T, auto Destroy>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T value) : value_(value) {}
  Handle(Handle&& other) noexcept : value_(std::exchange(other.value_, T{})) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Handle() {
    if (value_) Destroy(value_);
  }
  T get() const { return value_; }

 private:
  T value_{};
};

using StreamHandle = Handle<cudaStream_t, cudaStreamDestroy>;
using EventHandle = Handle<cudaEvent_t, cudaEventDestroy>;
using GraphHandle = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;
using PinnedHandle = Handle<void*, cudaFreeHost>;

inline StreamHandle make_stream() {
  cudaStream_t stream = nullptr;
  UNITY_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return StreamHandle(stream);
}
inline EventHandle make_event(bool timed) {
  cudaEvent_t event = nullptr;
  UNITY_CUDA_CHECK(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming));
  return EventHandle(event);
}

// Success when all that was enqueued is done; not ready, which is no error: none that the check of a later launch could
// find is left behind.
inline cudaError_t stream_status(cudaStream_t stream) {
  cudaError_t status = cudaStreamQuery(stream);
  if (status == cudaErrorNotReady) cudaGetLastError();
  return status;
}

// The host gives no more pinned memory.
struct OutOfPinnedMemory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Of the host, where every GPU copies from without the processor. OutOfPinnedMemory.
inline PinnedHandle make_pinned(std::size_t bytes) {
  void* data = nullptr;
  try {
    UNITY_CUDA_CHECK(cudaHostAlloc(&data, bytes, cudaHostAllocPortable));
  } catch (const OutOfDeviceMemory& error) {  // CUDA has one code for both
    throw OutOfPinnedMemory(error.what());
  }
  return PinnedHandle(data);
}

// Memory of the current GPU.
class Memory {
 public:
  enum class Contents : std::uint8_t { zeros, any };
  Memory() = default;
  // Zeros are there when it returns, for all streams. OutOfDeviceMemory.
  explicit Memory(std::int64_t bytes, Contents contents = Contents::zeros);
  Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~Memory();
  void* data() const { return data_; }
  std::byte* at(std::int64_t offset) const { return static_cast<std::byte*>(data_) + offset; }

 private:
  void* data_ = nullptr;
};

}  // namespace unity::cuda
