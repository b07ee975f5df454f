// Random choices of a test, by its seed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/random.h"

namespace unity::test {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : key_(RandomKey(seed)) {}
  // Uniform in [0, n).
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_below(key_, next_++, n)); }

 private:
  RandomKey key_;
  std::uint64_t next_ = 0;
};

}  // namespace unity::test
