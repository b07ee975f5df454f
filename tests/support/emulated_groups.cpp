#include "tests/support/emulated_groups.h"

#include <csetjmp>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <ucontext.h>

#include "runtime/cuda/launch.h"

namespace unity::test {
namespace {

constexpr std::size_t kStack = 128 << 10;
constexpr int kMostThreads = 1024;

// The threads of one group as contexts that hand over to one another: by jumps, which ask nothing of the kernel as
// swapcontext() does. Each goes on with the next group's thread of its rank.
class Threads final : public cuda::Meeting {
 public:
  void run(int size, const std::function<void(const cuda::Group&)>& f, bool backward) {
    work_ = &f, size_ = size, failure_ = nullptr;
    while (static_cast<int>(threads_.size()) < size) threads_.emplace_back().stack.resize(kStack);
    try {
      run_all(backward);
    } catch (...) {
      for (Thread& t : threads_) t.begun = false;  // wherever they are
      throw;
    }
  }

  void wait(Kind kind) override {
    Thread& t = threads_[static_cast<std::size_t>(current_)];
    t.kind = kind, t.state = State::waits;
    go_home(t);
  }
  std::byte* place(int rank) override { return places_[static_cast<std::size_t>(rank)].bytes; }

 private:
  enum class State : std::uint8_t { ready, waits, ended };
  struct Thread {
    std::jmp_buf place;  // where it goes on
    bool begun = false;
    std::vector<std::byte> stack;
    State state = State::ready;
    Kind kind = Kind::sync;
  };
  struct alignas(8) Place {
    std::byte bytes[8];
  };

  void run_all(bool backward) {
    for (;;) {  // all threads up to where they wait, or end
      int ended = 0;
      for (int i = 0; i < size_; ++i) {
        current_ = backward ? size_ - 1 - i : i;
        Thread& t = threads_[static_cast<std::size_t>(current_)];
        running_ = this;
        go_on(t);
        if (failure_) std::rethrow_exception(failure_);
        ended += t.state == State::ended;
      }
      if (ended == size_) return;
      if (ended > 0) throw std::logic_error("some threads of a group end while others wait for them");
      for (int r = 1; r < size_; ++r)
        if (threads_[static_cast<std::size_t>(r)].kind != threads_[0].kind)
          throw std::logic_error("threads of a group wait for different things");
    }
  }

  // Until the thread waits or ends.
  void go_on(Thread& t) {
    if (setjmp(home_) != 0) return;
    if (t.begun) std::longjmp(t.place, 1);
    t.begun = true;
    ucontext_t context{};
    getcontext(&context);
    context.uc_stack.ss_sp = t.stack.data(), context.uc_stack.ss_size = kStack;
    makecontext(&context, &Threads::enter, 0);
    setcontext(&context);
  }
  void go_home(Thread& t) {
    if (setjmp(t.place) == 0) std::longjmp(home_, 1);
  }

  static void enter() {
    for (;;) {
      Threads& all = *running_;
      const int rank = all.current_;
      try {
        (*all.work_)(cuda::Group(rank, all.size_, all));
      } catch (...) {
        all.failure_ = std::current_exception();
      }
      Thread& own = all.threads_[static_cast<std::size_t>(rank)];
      own.state = State::ended;
      all.go_home(own);
    }
  }

  static thread_local Threads* running_;
  std::jmp_buf home_;
  std::vector<Thread> threads_;
  std::vector<Place> places_ = std::vector<Place>(kMostThreads);
  const std::function<void(const cuda::Group&)>* work_ = nullptr;
  std::exception_ptr failure_;
  int size_ = 0, current_ = 0;
};
thread_local Threads* Threads::running_ = nullptr;

cuda::Emulation make_emulation(bool backward) {
  return {backward, [backward](int size, const std::function<void(const cuda::Group&)>& f) {
            static thread_local Threads threads;
            threads.run(size, f, backward);
          }};
}
cuda::Emulation& chosen() {
  static const char* order = std::getenv("UNITY_EMULATED_ORDER");
  static cuda::Emulation how = make_emulation(order && std::string_view(order) == "backward");
  return how;
}

}  // namespace

bool run_groups_backward(bool backward) {
  bool before = chosen().backward;
  chosen() = make_emulation(backward);
  return before;
}

}  // namespace unity::test

const unity::cuda::Emulation* unity::cuda::emulation() { return &test::chosen(); }
