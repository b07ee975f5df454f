// Whole-number expressions of topology files: "(i+1) % node", "i/8 == j/8 && i < j". Internal to this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace unity {

// The names that expressions may use, each with a value: counts of levels, parameters, captured numbers.
class IndexScope {
 public:
  std::optional<std::size_t> find(std::string_view name) const;
  std::size_t add(std::string name, std::int64_t value = 0);  // not there yet
  const std::vector<std::string>& names() const { return names_; }
  std::vector<std::int64_t> values;

 private:
  std::vector<std::string> names_;
};

// Operators, weakest first: || ; && ; == != < <= > >= ; + - ; * / % ; unary - and !. Division rounds down and its
// remainder has the sign of the divisor, so that (i-1) % n walks around a ring. Functions: min(a, b), max(a, b) and
// root(a, n), the smallest r with r^n >= a.
class IndexExpression {
 public:
  static Result<IndexExpression> parse(std::string_view text, const IndexScope& scope);
  // `values` are those of the scope. Error on division by zero and on overflow.
  Result<std::int64_t> evaluate(std::span<const std::int64_t> values) const;

 private:
  friend class IndexExpressionParser;
  enum class Op : std::uint8_t {
    number,
    name,
    negate,
    invert,
    add,
    subtract,
    multiply,
    divide,
    remainder,
    equal,
    unequal,
    less,
    at_most,
    more,
    at_least,
    both,
    either,
    minimum,
    maximum,
    root
  };
  struct Step {
    Op op;
    std::int64_t operand = 0;  // the number, or the place of the name
  };
  static Result<std::int64_t> apply(Op op, std::int64_t a, std::int64_t b);

  std::vector<Step> steps_;  // in reverse Polish notation
};

bool is_index_name(std::string_view text);

}  // namespace unity
