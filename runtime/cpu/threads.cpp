#include "runtime/cpu/threads.h"

#include <algorithm>
#include <exception>
#include <mutex>

#include <omp.h>
#include <sched.h>

#include "core/base/error.h"

namespace unity::cpu {
namespace {

thread_local int threads_of_caller = 1;

}  // namespace

int available_cores() {
#ifdef __SANITIZE_THREAD__
  return 1;  // the OpenMP runtime is not instrumented, so its barriers would be reported as races
#else
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
#endif
}

int fair_share(int devices) { return std::max(1, available_cores() / std::max(1, devices)); }

void set_threads(int threads) {
  UNITY_CHECK(threads >= 1, "set_threads: found {}, expected at least 1", threads);
  threads_of_caller = threads;
  omp_set_num_threads(threads);  // OpenMP keeps this per calling thread; oneDNN follows it
}

int threads() {
  // A thread that never called set_threads: OpenMP would give it all cores.
  thread_local bool told = false;
  if (!told) omp_set_num_threads(threads_of_caller), told = true;
  return threads_of_caller;
}

namespace detail {

void run_chunks(std::int64_t n, int chunks, void* body, void (*call)(void*, std::int64_t, std::int64_t)) {
  std::exception_ptr failure;
  std::mutex mutex;
#pragma omp parallel for num_threads(chunks) schedule(static, 1)
  for (int c = 0; c < chunks; ++c) {
    try {
      call(body, n * c / chunks, n * (c + 1) / chunks);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace detail
}  // namespace unity::cpu
