// How the kernels of the CUDA backend are written: as functions of one index (for_each) or of one group of threads that
// work on the same thing (for_each_group), in sources that two compilers take. nvcc makes device code of them. A host
// compiler, with UNITY_CUDA_EMULATED, makes plain loops with groups of one thread, so that tests check every kernel's
// arithmetic where there is no GPU. They run at once, or as run_emulated() says where a test has one; in groups of as
// many threads as on a device, and in any order, where a test has an Emulation.
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
#include <cstddef>
#include <cstring>
#include <functional>

struct CUstream_st;  // CUDA's
#endif
#define UNITY_DEVICE inline
#define UNITY_OF_GROUP inline
#define UNITY_LAMBDA [=]
#endif

namespace unity::cuda {

// Of a launch: within what every device takes, however many there are to do.
struct LaunchSize {
  int group = 1;         // threads of a group
  unsigned threads = 1;  // of a block: one group of several warps, or several of one
  unsigned blocks = 1;   // which take several turns each where there is more to do
};
inline unsigned blocks_for(std::int64_t n, std::int64_t in_block) {
  constexpr std::int64_t kBlocks = 65536;
  return static_cast<unsigned>(std::min(n / in_block + (n % in_block != 0 ? 1 : 0), kBlocks));
}
inline LaunchSize size_of_each(std::int64_t n) {
  constexpr int kThreads = 256;
  return {1, kThreads, blocks_for(n, kThreads)};
}
// For groups that go through about `work` items each.
inline LaunchSize size_of_groups(std::int64_t groups, std::int64_t work) {
  int size = work <= 256 ? 32 : work <= 1024 ? 128 : work <= 4096 ? 256 : 512;
  int threads = std::max(size, 128);
  return {size, static_cast<unsigned>(threads), blocks_for(groups, threads / size)};
}

constexpr int kSizeOfColumns = 256;  // threads of a group whose columns are summed

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
  // For each of `columns`, c: the sum of v of the threads whose rank is c, c + columns, .., as many times as all
  // columns have; take(c, i, the sum of v[i]) by any thread. For kSizeOfColumns threads at most.
  template <int kValues, class Take>
  __device__ void sum_columns(const float (&v)[kValues], int columns, Take take) const {
    __shared__ float memory[kValues * kSizeOfColumns];
    sync();  // an earlier call's readers are done
    for (int i = 0; i < kValues; ++i) memory[i * kSizeOfColumns + rank_] = v[i];
    sync();
    const int end = size_ / columns * columns;
    for (int at = rank_; at < kValues * columns; at += size_) {
      const int i = at / columns, c = at - i * columns;
      float total = 0;
      for (int r = c; r < end; r += columns) total += memory[i * kSizeOfColumns + r];
      take(c, i, total);
    }
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
  LaunchSize size = size_of_each(n);
  run_each<<<size.blocks, size.threads, 0, stream>>>(n, f);
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
  LaunchSize size = size_of_groups(groups, work);
  run_groups<<<size.blocks, size.threads, 0, stream>>>(groups, size.group, f);
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

// Where the threads of a group wait for one another, and what each of them brings.
class Meeting {
 public:
  enum class Kind : std::uint8_t { sync, sum, max };
  virtual ~Meeting() = default;
  virtual void wait(Kind kind) = 0;        // until all threads are here, for the same
  virtual std::byte* place(int rank) = 0;  // 8 bytes
};

class Group {
 public:
  Group() = default;
  Group(int rank, int size, Meeting& meeting) : rank_(rank), size_(size), meeting_(&meeting) {}
  int rank() const { return rank_; }
  int size() const { return size_; }
  void sync() const {
    if (meeting_) meeting_->wait(Meeting::Kind::sync);
  }
  template <class T>
  T sum(T x) const {
    return fold(x, Meeting::Kind::sum, [](T a, T b) { return a + b; });
  }
  template <class T>
  T max(T x) const {
    return fold(x, Meeting::Kind::max, [](T a, T b) { return a > b || a != a ? a : b; });
  }
  template <int kValues, class Take>
  void sum_columns(const float (&v)[kValues], int columns, Take take) const {
    if (!meeting_) {
      for (int i = 0; i < kValues; ++i) take(0, i, v[i]);
      return;
    }
    const int end = size_ / columns * columns;
    for (int i = 0; i < kValues; ++i) {
      std::memcpy(meeting_->place(rank_), &v[i], sizeof v[i]);
      meeting_->wait(Meeting::Kind::sum);
      float total = 0, x = 0;
      for (int r = rank_; r < end; r += columns) {
        std::memcpy(&x, meeting_->place(r), sizeof x);
        total += x;
      }
      if (rank_ < columns) take(rank_, i, total);
      meeting_->wait(Meeting::Kind::sum);
    }
  }

 private:
  template <class T, class F>
  T fold(T x, Meeting::Kind kind, F f) const {
    static_assert(sizeof(T) <= 8);
    if (!meeting_) return x;
    std::memcpy(meeting_->place(rank_), &x, sizeof x);
    meeting_->wait(kind);
    T total;
    std::memcpy(&total, meeting_->place(0), sizeof x);
    for (int r = 1; r < size_; ++r) {
      std::memcpy(&x, meeting_->place(r), sizeof x);
      total = f(total, x);
    }
    meeting_->wait(kind);  // before the places are used again
    return total;
  }
  int rank_ = 0, size_ = 1;
  Meeting* meeting_ = nullptr;
};

// How tests may have launches run.
struct Emulation {
  bool backward = false;  // iterations and groups from the last to the first
  // f(group) by every thread of a group of this size.
  std::function<void(int size, const std::function<void(const Group&)>& f)> run_group;
};
[[gnu::weak]] const Emulation* emulation();  // null: the plain one

template <class F>
void in_order(std::int64_t n, F f) {
  const Emulation* how = emulation ? emulation() : nullptr;
  for (std::int64_t i = 0; i < n; ++i) f(how && how->backward ? n - 1 - i : i);
}

template <class F>
void for_each(Stream stream, std::int64_t n, F f) {
  emulate(stream, [n, f] { in_order(n, f); });
}

template <class F>
void for_each_group(Stream stream, std::int64_t groups, std::int64_t work, F f) {
  emulate(stream, [groups, work, f] {
    const Emulation* how = emulation ? emulation() : nullptr;
    in_order(groups, [&](std::int64_t g) {
      if (!how) return f(g, Group());
      how->run_group(size_of_groups(groups, work).group, [&](const Group& group) { f(g, group); });
    });
  });
}
#endif

}  // namespace unity::cuda
