// Errors: `Result<T>` where failing is ordinary, `InputError` where a user's input is wrong, `CHECK` for our own
// mistakes.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#ifdef __NVCC__
#define FMT_USE_CONSTEXPR 1  // which fmt 9 leaves off there, and then its constexpr functions call others that are not
#endif
#include <fmt/format.h>

namespace unity {

// Why an ordinary operation could not be done. Messages say subject, found, expected.
struct Error {
  std::string message;
};

// What a user gave is wrong (exit code 2). `what()` is one line: "file:line:column: subject: found X, expected Y".
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Our own mistake: a broken invariant, thrown by CHECK (exit code 1).
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

template <class... Args>
[[nodiscard]] Error fail(fmt::format_string<Args...> format, Args&&... args) {
  return Error{fmt::format(format, std::forward<Args>(args)...)};
}

template <class... Args>
[[noreturn]] void throw_input_error(fmt::format_string<Args...> format, Args&&... args) {
  throw InputError(fmt::format(format, std::forward<Args>(args)...));
}

namespace detail {
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);
}

// A value or the reason why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // The value; throws InputError with the reason when there is none.
  T& value() & { return require(), std::get<0>(state_); }
  const T& value() const& { return require(), std::get<0>(state_); }
  T&& value() && { return require(), std::move(std::get<0>(state_)); }
  const Error& error() const { return std::get<1>(state_); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void require() const {
    if (!ok()) throw InputError(error().message);
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}
  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  void value() const {
    if (!ok_) throw InputError(error_.message);
  }
  const Error& error() const { return error_; }

 private:
  Error error_;
  bool ok_ = true;
};

}  // namespace unity

#define UNITY_CHECK(condition, ...)                                                                            \
  do {                                                                                                         \
    if (!(condition)) ::unity::detail::check_failed(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
  } while (false)

// Evaluates to the value of a Result, or returns its error from the enclosing function.
#define UNITY_TRY(expression)                            \
  ({                                                     \
    auto unity_result = (expression);                    \
    if (!unity_result.ok()) return unity_result.error(); \
    std::move(unity_result).value();                     \
  })

// Returns the error of a Result<void> from the enclosing function.
#define UNITY_TRY_VOID(expression)                       \
  do {                                                   \
    auto unity_result = (expression);                    \
    if (!unity_result.ok()) return unity_result.error(); \
  } while (false)
