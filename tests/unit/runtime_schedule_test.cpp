#include <cmath>

#include <catch2/catch.hpp>

#include "core/base/error.h"
#include "runtime/schedule.h"

using namespace unity;

namespace {
double rate(const char* text, std::int64_t step, double base = 1) {
  return learning_rate(parse_schedule(text), base, step);
}
}  // namespace

TEST_CASE("warm-up rises by equal steps to the full rate, and what follows starts there") {
  CHECK(rate("constant", 0) == 1);
  CHECK(rate("constant warmup=4", 0) == 0.25);
  CHECK(rate("constant warmup=4", 3) == 1);
  CHECK(rate("constant warmup=4", 1000) == 1);
  CHECK(rate("linear warmup=4 steps=8", 4) == 1);
  CHECK(rate("linear warmup=4 steps=8", 6) == 0.5);  // half of the 4 steps after the warm-up
  CHECK(rate("step warmup=4 every=2 gamma=0.5", 5) == 1);
  CHECK(rate("step warmup=4 every=2 gamma=0.5", 6) == 0.5);
}

TEST_CASE("step multiplies by gamma every N steps") {
  CHECK(rate("step every=10 gamma=0.5", 9) == 1);
  CHECK(rate("step every=10 gamma=0.5", 10) == 0.5);
  CHECK(rate("step every=10 gamma=0.5", 39) == 0.125);
  CHECK(rate("step every=10", 10) == Approx(0.1));
}

TEST_CASE("cosine falls from the rate to min: a quarter of the way it has (1 + sqrt(1/2)) / 2 of the span left") {
  const char* text = "cosine min=0.2 steps=100";
  CHECK(rate(text, 0) == Approx(1));
  CHECK(rate(text, 25) == Approx(0.2 + 0.8 * (1 + std::sqrt(0.5)) / 2));
  CHECK(rate(text, 50) == Approx(0.6));
  CHECK(rate(text, 100) == Approx(0.2));
  CHECK(rate(text, 1000) == Approx(0.2));
}

TEST_CASE("linear and polynomial end at min; min is a learning rate, not a factor") {
  CHECK(rate("linear min=1e-3 steps=10", 5, 3e-3) == Approx(2e-3));
  CHECK(rate("linear steps=10", 10) == 0);
  CHECK(rate("polynomial power=2 steps=10", 5) == 0.25);
  CHECK(rate("polynomial power=2 min=0.2 steps=10", 5) == Approx(0.4));
  CHECK(rate("polynomial steps=10", 5) == rate("linear steps=10", 5));
}

TEST_CASE("schedules that are unknown or contradict themselves are refused") {
  auto refuses = [](const char* text, const char* why) {
    INFO(text);
    CHECK_THROWS_WITH(parse_schedule(text), Catch::StartsWith("schedule: ") && Catch::Contains(why));
  };
  refuses("cosin", "did you mean 'cosine'?");
  refuses("cosine gamma=1", "cosine has no 'gamma'");
  refuses("cosine 100", "without a key");
  refuses("step", "expected its steps, too");
  refuses("step every=0", "found 0, expected a whole number from 1 to 1e15");
  refuses("constant warmup=1e20", "found 1e+20, expected a whole number from 0 to 1e15");
  refuses("cosine warmup=1.5", "whole number");
  refuses("cosine warmup=100 steps=100", "expected more than the 100 of warm-up");
}
