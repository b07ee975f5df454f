// What the played CUDA and NCCL share: GPUs with their memory, and what is enqueued on their streams.
//
// Nothing runs before someone asks whether it is done. Then each stream goes on as far as it can, one after the other:
// the last one made first, or the first (UNITY_FAKE_ORDER is "forward"); or for a few steps, in an order by chance
// ("mixed"). So work is ordered by its stream and by events alone, and what waits for less than it reads finds other
// numbers in one of the orders.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include "tests/support/fake_cuda.h"

namespace unity::fake {

constexpr std::size_t kMemory = std::size_t{4} << 30;  // of a GPU; pages that nothing touches take none
constexpr int kMostGpus = 8;

// Room on a GPU that only its work may touch; or pinned memory of the host, where kernels may not be.
struct Arena {
  std::byte* begin = nullptr;
  std::map<std::size_t, std::size_t> taken;  // by offset: bytes

  Arena() {
    void* room = mmap(nullptr, kMemory, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) throw std::bad_alloc();
    begin = static_cast<std::byte*>(room);
  }
  ~Arena() { munmap(begin, kMemory); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  bool has(const void* p) const { return p >= begin && p < begin + kMemory; }
  // All of it, in one allocation.
  bool holds(const void* p, std::size_t bytes) const {
    if (!has(p)) return false;
    auto at = static_cast<std::size_t>(static_cast<const std::byte*>(p) - begin);
    auto next = taken.upper_bound(at);
    return next != taken.begin() && at + bytes <= std::prev(next)->first + std::prev(next)->second;
  }
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (auto [offset, size] : taken) sum += static_cast<std::int64_t>(size);
    return sum;
  }
  void open(bool yes) { mprotect(begin, kMemory, yes ? PROT_READ | PROT_WRITE : PROT_NONE); }
  void* take(std::size_t bytes) {
    bytes = (bytes + 8191) / 4096 * 4096;  // and a gap
    std::size_t at = 0;
    for (auto [offset, size] : taken) {
      if (offset - at >= bytes) break;
      at = offset + size;
    }
    if (at + bytes > kMemory) return nullptr;
    taken[at] = bytes;
    return begin + at;
  }
  // Whoever reads it after that finds NaN at its beginning.
  void give_back(void* p) {
    auto found = taken.find(static_cast<std::size_t>(static_cast<std::byte*>(p) - begin));
    madvise(p, found->second / 4096 * 4096, MADV_DONTNEED);
    std::memset(p, 0xff, std::min<std::size_t>(found->second, 1 << 16));
    taken.erase(found);
  }
};

struct World {
  World();
  int gpus;
  std::string order;
  std::mutex mutex;
  Arena arenas[kMostGpus];
  std::int64_t memory = static_cast<std::int64_t>(kMemory);  // of a GPU
  bool hang = false, hung = false, libraries = true, nccl_starts = true;
  FakeLibraryCalls calls;
  FakeCounts counts;
  int aborted = 0, held_aborts = 0;
  std::int64_t score_bytes = 2;
  int driver = 13000, capability = 90;
  int launches_to_failure = -1, nccl_calls_to_failure = -1;  // -1: never
  int launch_error = 719, code_error = 0;                    // cudaErrorLaunchFailure, cudaSuccess
};
World& world();

// Of the calling thread.
int& current();  // of all GPUs
int& nccl_version();

struct Aborted {};

// With the lock held: whether this is the call that is to fail.
inline bool fails(int& calls_to_failure) { return calls_to_failure >= 0 && calls_to_failure-- == 0; }

// Something on a stream, which begins when what is before it there, and all that it comes after, is done.
struct Op {
  int gpu = -1;                    // whose memory it may touch; -1: none
  std::function<void()> work;      // with the world's lock held; may be empty
  std::function<bool()> finished;  // of what others take part in; likewise. Both throw Aborted where it was ended.
  std::vector<std::shared_ptr<Op>> after;
  bool started = false, done = false;
  bool copies = false;                    // as the copy engines do, which reach pinned memory of the host, too
  std::shared_ptr<void> holds = nullptr;  // as long as there is a graph that it was captured for
};
using Queue = std::deque<std::shared_ptr<Op>>;
struct Capture {
  std::vector<std::pair<cudaStream_t, std::shared_ptr<Op>>> ops;
  bool open = true;
};

// The streams that one thread made, which plays a process; its other threads use them, too.
struct Process {
  std::mutex mutex;                            // taken before the world's
  std::vector<std::shared_ptr<Queue>> queues;  // in the order in which they were made
  std::minstd_rand chance;                     // of the order
  std::unique_ptr<Arena> pinned;               // there once it is asked for; closed while kernels run
  std::int64_t most_pinned = static_cast<std::int64_t>(kMemory);
};

std::shared_ptr<Op> enqueue(cudaStream_t stream, Op op);
// Of all that is enqueued in a process; whether nothing is left.
bool progress(Process& process);
void finish(Process& process);

}  // namespace unity::fake

struct CUstream_st {
  int gpu = 0;
  std::shared_ptr<unity::fake::Process> process;
  std::shared_ptr<unity::fake::Queue> queue;
  std::shared_ptr<unity::fake::Op> last;          // enqueued
  std::shared_ptr<unity::fake::Capture> capture;  // that it is part of
};
