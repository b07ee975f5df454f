// How the kernels of the CUDA backend are written: as functions of one index (for_each) or of one group of threads that
// work on the same thing (for_each_group), in sources that two compilers take. nvcc makes device code of them. A host
// compiler, with UNITY_CUDA_EMULATED, makes plain loops with groups of one thread, so that tests check every kernel's
// arithmetic where there is no GPU. They run at once, or as run_emulated() says where a test has one.
//
//   template <class R>
//   void add_of(const Call& c) {
//     auto x = reals<R>(c.inputs[0]), y = reals<R>(c.inputs[1]), z = reals<R>(c.outputs[0]);
//     for_each(c.stream, c.outputs[0].elements(), UNITY_LAMBDA(std::int64_t i) { z.store(i, x.load(i) + y.load(i)); });
//   }
//   UNITY_CUDA_KERNEL(add)
#pragma once

#include <algorithm>
#include <cstdint>

// A host compiler without UNITY_CUDA_EMULATED (the backend's own sources) sees Stream alone.
#ifdef __CUDACC__
#include <cuda_runtime.h>

#include "runtime/cuda/check.h"
#define UNITY_DEVICE __host__ __device__ __forceinline__
#define UNITY_OF_GROUP __device__ __forceinline__  // for functions that take a Group
#define UNITY_LAMBDA [=] __device__
#else
#ifndef UNITY_CUDA_EMULATED
#include <cuda_runtime_api.h>
#else
#include <functional>

struct CUstream_st;  // CUDA's
#endif
#define UNITY_DEVICE inline
#define UNITY_OF_GROUP inline
#define UNITY_LAMBDA [=]
#endif

namespace unity::cuda {

#ifndef UNITY_CUDA_EMULATED
using Stream = cudaStream_t;

#ifdef __CUDACC__
// The threads that work on one group: one warp, or one block of several warps. All of them call every member.
class Group {
 public:
  __device__ Group(int rank, int size) : rank_(rank), size_(size) {}
  __device__ int rank() const { return rank_; }
  __device__ int size() const { return size_; }
  // What one thread wrote before, others read after.
  __device__ void sync() const {
    if (size_ > 32)
      __syncthreads();
    else
      __syncwarp();
  }
  // The sum, and the largest, of every thread's x; all threads get it. The order of the sum is always the same.
  template <class T>
  __device__ T sum(T x) const {
    return fold(x, [](T a, T b) { return a + b; });
  }
  template <class T>
  __device__ T max(T x) const {
    return fold(x, [](T a, T b) { return a > b || a != a ? a : b; });
  }

 private:
  template <class T, class F>
  __device__ T fold(T x, F f) const {
    for (int step = 16; step > 0; step /= 2) x = f(x, __shfl_xor_sync(0xffffffffu, x, step));
    if (size_ <= 32) return x;
    __shared__ double memory[32];
    auto* of_warp = reinterpret_cast<T*>(memory);
    __syncthreads();  // an earlier fold's readers are done
    if (rank_ % 32 == 0) of_warp[rank_ / 32] = x;
    __syncthreads();
    T total = of_warp[0];
    for (int w = 1; w < size_ / 32; ++w) total = f(total, of_warp[w]);
    return total;
  }
  int rank_, size_;
};

template <class F>
__global__ void run_each(std::int64_t n, F f) {
  std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) f(i);
}

// f(i) for i in [0, n), in any order.
template <class F>
void for_each(Stream stream, std::int64_t n, F f) {
  if (n == 0) return;
  constexpr int kThreads = 256;
  constexpr std::int64_t kBlocks = 65536;
  std::int64_t blocks = std::min((n + kThreads - 1) / kThreads, kBlocks);
  run_each<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(n, f);
  UNITY_CUDA_CHECK(cudaGetLastError());
}

template <class F>
__global__ void __launch_bounds__(512) run_groups(std::int64_t groups, int size, F f) {
  int in_block = static_cast<int>(blockDim.x) / size;  // groups of a warp each, or one of the whole block
  Group group(static_cast<int>(threadIdx.x) % size, size);
  std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * in_block;
  for (std::int64_t g = static_cast<std::int64_t>(blockIdx.x) * in_block + threadIdx.x / size; g < groups; g += stride)
    f(g, group);
}

// f(g, group) for g in [0, groups); `work` is about how many items each group goes through, as in
// for (i = group.rank(); i < work; i += group.size()).
template <class F>
void for_each_group(Stream stream, std::int64_t groups, std::int64_t work, F f) {
  if (groups == 0) return;
  int size = work <= 256 ? 32 : work <= 1024 ? 128 : work <= 4096 ? 256 : 512;
  int threads = std::max(size, 128);
  std::int64_t in_block = threads / size;
  std::int64_t blocks = std::min<std::int64_t>((groups + in_block - 1) / in_block, 65536);
  run_groups<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), 0, stream>>>(groups, size, f);
  UNITY_CUDA_CHECK(cudaGetLastError());
}
#endif  // __CUDACC__

#else  // UNITY_CUDA_EMULATED
using Stream = CUstream_st*;

// What stands in for CUDA: runs, or records, what is queued on the stream.
[[gnu::weak]] void run_emulated(Stream stream, const std::function<void()>& work);

template <class F>
void emulate(Stream stream, F f) {
  if (run_emulated)
    run_emulated(stream, f);
  else
    f();
}

class Group {
 public:
  int rank() const { return 0; }
  int size() const { return 1; }
  void sync() const {}
  template <class T>
  T sum(T x) const {
    return x;
  }
  template <class T>
  T max(T x) const {
    return x;
  }
};

template <class F>
void for_each(Stream stream, std::int64_t n, F f) {
  emulate(stream, [n, f] {
    for (std::int64_t i = 0; i < n; ++i) f(i);
  });
}

template <class F>
void for_each_group(Stream stream, std::int64_t groups, std::int64_t /*work*/, F f) {
  emulate(stream, [groups, f] {
    for (std::int64_t g = 0; g < groups; ++g) f(g, Group());
  });
}
#endif

}  // namespace unity::cuda
