// What follows from equations between products without a solver.
#include <catch2/catch.hpp>

#include "core/verify/elimination.h"

namespace unity {
namespace {

using Kind = Constraint::Kind;

Constraint equal(Monomial a, Monomial b) { return {Kind::equal, std::move(a), std::move(b), {}}; }

TEST_CASE("an equation follows from others by elimination, and no other does") {
  // x = a b, y = b c: x c = a y, for both are a b c.
  Elimination e({equal({{"x", 1}}, {{"a", 1}, {"b", 1}}), equal({{"y", 1}}, {{"b", 1}, {"c", 1}})});
  CHECK(e.shows(equal({{"x", 1}, {"c", 1}}, {{"a", 1}, {"y", 1}})));
  CHECK(!e.shows(equal({{"x", 1}}, {{"y", 1}})));
}

TEST_CASE("a number whose square is 1 is 1") {
  Elimination e({equal({{"x", 2}}, {})});
  CHECK(e.shows(equal({{"x", 1}}, {})));
}

TEST_CASE("a divisor of a product of whole numbers, or of what is assumed to be divided, divides") {
  Elimination e({{Kind::divides, {{"d", 1}}, {{"n", 1}}, {}}, equal({{"m", 1}}, {{"n", 1}, {"k", 1}})});
  CHECK(e.shows({Kind::divides, {{"k", 1}}, {{"m", 1}}, {}}));            // m / k = n
  CHECK(e.shows({Kind::divides, {{"d", 1}, {"k", 1}}, {{"m", 1}}, {}}));  // m / (d k) = n / d
  CHECK(!e.shows({Kind::divides, {{"d", 1}}, {{"k", 1}}, {}}));
}

TEST_CASE("a smaller size is not a divisor") {
  Elimination e({{Kind::at_most, {{"d", 1}}, {{"n", 1}}, {}}});
  CHECK(e.shows({Kind::at_most, {{"d", 1}}, {{"n", 1}}, {}}));
  CHECK(!e.shows({Kind::divides, {{"d", 1}}, {{"n", 1}}, {}}));
}

}  // namespace
}  // namespace unity
