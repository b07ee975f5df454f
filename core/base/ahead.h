// Work that is begun before its result is asked for.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/parallel.h"

namespace unity {

// Done by a thread, if there is one to spare; else when it is asked for. What it does must not depend on which.
template <class T>
class Ahead {
 public:
  Ahead(Threads& threads, std::function<T()> work) : threads_(threads), work_(std::move(work)) {
    if (!threads_.take()) return;
    try {
      thread_ = std::thread([this] {
        try {
          result_ = work_();
        } catch (...) {
          failure_ = std::current_exception();
        }
        threads_.give();
      });
    } catch (const std::system_error&) {  // the system has no more
      threads_.give();
    }
  }
  ~Ahead() { wait(); }
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  // Once. An exception of the work is thrown here.
  T get() {
    if (!thread_.joinable()) return work_();
    wait();
    if (failure_) std::rethrow_exception(failure_);
    return std::move(*result_);
  }

 private:
  void wait() {
    if (!thread_.joinable()) return;
    threads_.give();  // the own, meanwhile
    thread_.join();
    threads_.take_back();
  }

  Threads& threads_;
  std::function<T()> work_;
  std::optional<T> result_;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace unity
