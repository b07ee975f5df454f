// The seed of random tests, which print it.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace unity::test {

// $UNITY_TEST_SEED, or a fixed one.
inline std::uint64_t seed_of_run() {
  const char* given = std::getenv("UNITY_TEST_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 20240817;
}

}  // namespace unity::test
