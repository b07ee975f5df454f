#include "runtime/cpu/threads.h"

#include <algorithm>
#include <cstdlib>
#include <future>
#include <memory>
#include <system_error>
#include <thread>

#include <omp.h>
#include <sched.h>

#include "core/base/error.h"
#include "runtime/cpu/team.h"

namespace unity::cpu {
namespace {

thread_local int threads_of_caller = 1;
thread_local bool inside_chunk = false;

// GCC's OpenMP lets waiting threads spin for milliseconds, which starves communication and everybody else on the
// machine, unless there are more threads in teams than cores: then they sleep at once. One team that is never used
// makes it so. OMP_WAIT_POLICY or GOMP_SPINCOUNT in the environment leave the choice to the user.
class IdleTeam {
 public:
  IdleTeam() {
    if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
    std::promise<void> started;
    std::future<void> end = end_.get_future();
    try {
      owner_ = std::thread([&started, end = std::move(end)] {
#pragma omp parallel num_threads(available_cores() + 1)
        {}
        started.set_value();
        end.wait();
      });
    } catch (const std::system_error&) {
      return;  // where the system starts no more threads, those that compute will say so
    }
    started.get_future().wait();
  }
  ~IdleTeam() {
    end_.set_value();
    if (owner_.joinable()) owner_.join();
  }

 private:
  std::promise<void> end_;
  std::thread owner_;
};

}  // namespace

void set_openmp_threads(int threads) {
#ifdef __SANITIZE_THREAD__
  threads = 1;  // the OpenMP runtime is not instrumented: its barriers would be reported as races
#endif
  omp_set_num_threads(threads);
}

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

int fair_share(int devices) { return std::max(1, available_cores() / std::max(1, devices)); }

void set_threads(int threads) {
  UNITY_CHECK(threads >= 1, "set_threads: found {}, expected at least 1", threads);
  if (threads > 1) static const IdleTeam idle;
  threads_of_caller = threads;
  set_openmp_threads(threads);
}

int threads() {
  // A thread that never called set_threads: OpenMP would give it all cores.
  thread_local bool told = false;
  if (!told) set_openmp_threads(threads_of_caller), told = true;
  return threads_of_caller;
}

namespace detail {

void run_chunks(std::int64_t n, std::int64_t chunks, void* body, void (*call)(void*, std::int64_t, std::int64_t)) {
  // Loops inside a chunk are not shared out again.
  if (threads_of_caller == 1 || inside_chunk) return call(body, 0, n);
  thread_local std::unique_ptr<Team> team;
  if (!team || team->helpers() != threads_of_caller - 1) team = std::make_unique<Team>(threads_of_caller - 1);
  struct Shared {
    void* body;
    void (*call)(void*, std::int64_t, std::int64_t);
  } shared{body, call};
  team->run(n, chunks, &shared, [](void* s, std::int64_t begin, std::int64_t end) {
    auto* loop = static_cast<Shared*>(s);
    inside_chunk = true;
    set_openmp_threads(1);
    struct Leave {
      ~Leave() {
        inside_chunk = false;
        set_openmp_threads(threads_of_caller);
      }
    } leave;
    loop->call(loop->body, begin, end);
  });
}

}  // namespace detail
}  // namespace unity::cpu
