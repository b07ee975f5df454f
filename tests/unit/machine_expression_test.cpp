// Index expressions and patterns of topology files.
#include <catch2/catch.hpp>

#include "core/machine/index_expression.h"
#include "core/machine/name_pattern.h"

using namespace unity;
using Catch::Contains;

namespace {

IndexScope scope_with_i_and_n(std::int64_t i, std::int64_t n) {
  IndexScope scope;
  scope.add("i", i);
  scope.add("n", n);
  return scope;
}

std::int64_t value(const std::string& text, std::int64_t i = 0, std::int64_t n = 0) {
  IndexScope scope = scope_with_i_and_n(i, n);
  return IndexExpression::parse(text, scope).value().evaluate(scope.values).value();
}

std::string error(const std::string& text, std::int64_t i = 0, std::int64_t n = 0) {
  IndexScope scope = scope_with_i_and_n(i, n);
  auto parsed = IndexExpression::parse(text, scope);
  if (!parsed.ok()) return parsed.error().message;
  auto result = parsed->evaluate(scope.values);
  return result.ok() ? "" : result.error().message;
}

}  // namespace

TEST_CASE("index expressions follow the usual precedence") {
  CHECK(value("1 + 2*3") == 7);
  CHECK(value("(1 + 2) * 3") == 9);
  CHECK(value("2*i+1 < n && n % 2 == 0", 3, 8) == 1);
  CHECK(value("i == 1 || i == 2 && n == 0", 1, 5) == 1);  // && binds more closely than ||
  CHECK(value("10 - 3 - 2") == 5);
  CHECK(value("!i + -n", 0, 5) == -4);
  CHECK(value("i != n", 1, 2) == 1);
  CHECK(value("min(i, n) + max(i, n)*10", 2, 3) == 32);
}

TEST_CASE("division rounds down, so that a ring can be walked backwards") {
  CHECK(value("7/8") == 0);
  CHECK(value("(i-1) % n", 0, 5) == 4);
  CHECK(value("(i-1) / n", 0, 5) == -1);
  CHECK(value("i % n", 7, -2) == -1);  // the sign of the divisor: 7 = -4 * -2 - 1
}

TEST_CASE("root gives the smallest number whose power is enough") {
  CHECK(value("root(64, 3)") == 4);
  CHECK(value("root(65, 3)") == 5);
  CHECK(value("root(16, 2)") == 4);
  CHECK(value("root(1, 3)") == 1);
  CHECK(value("root(0, 2)") == 0);
  CHECK(value("root(1000, 200)") == 2);
}

TEST_CASE("errors in index expressions say what was found") {
  CHECK(error("nn + 1") == "'nn + 1': unknown name 'nn' (did you mean 'n'?)");
  CHECK(error("(i + 1") == "'(i + 1': found '', expected ')'");
  CHECK(error("i +") == "'i +': ends where a number or name is expected");
  CHECK(error("i $ 2") == "'i $ 2': found '$ 2', expected an operator or the end");
  CHECK(error("min(i)") == "'min(i)': min takes two values, separated by a comma");
  CHECK(error("i / n", 1, 0) == "division by zero");
  CHECK(error("i % n", 1, 0) == "division by zero");
  CHECK(error("i * n", 1LL << 40, 1LL << 40) == "a number is too large");
  CHECK_THAT(error("99999999999999999999"), Contains("the number is too large"));
  CHECK_THAT(error(std::string(100, '(')), Contains("nested"));
}

TEST_CASE("a pattern captures new names and knows those that have a value") {
  IndexScope scope;
  scope.add("n", 4);
  NamePattern first = NamePattern::parse("node<i>.*", scope).value();
  std::vector<std::int64_t> values = scope.values;
  REQUIRE(first.match("node12.gpu3", values));
  CHECK(values[*scope.find("i")] == 12);
  CHECK_FALSE(first.match("node1.socket0.gpu3", values));  // '*' takes no dot
  CHECK_FALSE(first.match("node01.gpu3", values));         // a name that no count makes
  NamePattern second = NamePattern::parse("leaf<i/n>", scope).value();
  CHECK(second.bind(std::vector<std::int64_t>{4, 13}).value().name() == "leaf3");
  CHECK(NamePattern::parse("gpu<x", scope).error().message == "'gpu<x': '<' without '>'");
}
