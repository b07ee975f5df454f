#include "tests/support/emulated_groups.h"

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

// The threads of one group as contexts that hand over to one another.
class Threads final : public cuda::Meeting {
 public:
  void run(int size, const std::function<void(const cuda::Group&)>& f, bool backward) {
    work_ = &f, size_ = size, failure_ = nullptr;
    while (static_cast<int>(threads_.size()) < size) threads_.emplace_back().stack.resize(kStack);
    for (int r = 0; r < size; ++r) {
      Thread& t = threads_[static_cast<std::size_t>(r)];
      t.state = State::ready;
      getcontext(&t.context);
      t.context.uc_stack.ss_sp = t.stack.data(), t.context.uc_stack.ss_size = kStack;
      t.context.uc_link = &home_;
      makecontext(&t.context, &Threads::enter, 0);
    }
    for (;;) {  // all threads up to where they wait, or end
      int ended = 0;
      for (int i = 0; i < size; ++i) {
        current_ = backward ? size - 1 - i : i;
        Thread& t = threads_[static_cast<std::size_t>(current_)];
        running_ = this;
        swapcontext(&home_, &t.context);
        if (failure_) std::rethrow_exception(failure_);
        ended += t.state == State::ended;
      }
      if (ended == size) return;
      if (ended > 0) throw std::logic_error("some threads of a group end while others wait for them");
      for (int r = 1; r < size; ++r)
        if (threads_[static_cast<std::size_t>(r)].kind != threads_[0].kind)
          throw std::logic_error("threads of a group wait for different things");
    }
  }

  void wait(Kind kind) override {
    Thread& t = threads_[static_cast<std::size_t>(current_)];
    t.kind = kind, t.state = State::waits;
    swapcontext(&t.context, &home_);
  }
  std::byte* place(int rank) override { return places_[static_cast<std::size_t>(rank)].bytes; }

 private:
  enum class State : std::uint8_t { ready, waits, ended };
  struct Thread {
    ucontext_t context{};
    std::vector<std::byte> stack;
    State state = State::ready;
    Kind kind = Kind::sync;
  };
  struct alignas(8) Place {
    std::byte bytes[8];
  };

  static void enter() {
    Threads& all = *running_;
    int rank = all.current_;
    try {
      (*all.work_)(cuda::Group(rank, all.size_, all));
    } catch (...) {
      all.failure_ = std::current_exception();
    }
    all.threads_[static_cast<std::size_t>(rank)].state = State::ended;
  }

  static thread_local Threads* running_;
  ucontext_t home_{};
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
