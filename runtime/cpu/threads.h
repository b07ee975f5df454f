// How many threads a kernel may use. The number belongs to the calling thread: each logical device sets its share once,
// and everything it calls (own loops, oneDNN, OpenBLAS) keeps to it.
//
// Work is cut into chunks by size and number of threads only, never by timing, so every sum is the same in every run
// with the same number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace unity::cpu {

// The cores of this process's affinity mask, at least 1.
int available_cores();

// Each device's fair share of the cores.
int fair_share(int devices);

// Sets and gets the number of threads for kernels called by this thread. The default is 1.
void set_threads(int threads);
int threads();

// Threads of OpenMP, and so of oneDNN, for the calling thread; set_threads and gemm keep it as it should be.
void set_openmp_threads(int threads);

namespace detail {
void run_chunks(std::int64_t n, std::int64_t chunks, void* body, void (*call)(void*, std::int64_t, std::int64_t));
}

// Calls body(begin, end) for consecutive ranges that cover 0 .. n - 1, none shorter than `grain` where there are
// several: a few for each thread, which take them as they come (team.h). What a range computes must not depend on where
// it begins.
template <class Body>
void parallel_for(std::int64_t n, std::int64_t grain, Body&& body, std::int64_t per_thread = 3) {
  std::int64_t chunks = std::min(n / std::max<std::int64_t>(grain, 1), per_thread * threads());
  if (chunks <= 1 || threads() == 1) {
    if (n > 0) body(std::int64_t{0}, n);
    return;
  }
  detail::run_chunks(n, chunks, &body, [](void* b, std::int64_t begin, std::int64_t end) {
    (*static_cast<std::remove_reference_t<Body>*>(b))(begin, end);
  });
}

}  // namespace unity::cpu
