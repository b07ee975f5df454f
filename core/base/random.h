// Counter-based random numbers: the value at (key, index) depends on nothing else, so that initialisation and dropout
// are the same under every plan, thread count and order (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011).
#pragma once

#include <cmath>
#include <cstdint>

#include "core/base/hash.h"

namespace unity {

// Names one stream: for example (seed, origin of the operator, step).
struct RandomKey {
  std::uint64_t key = 0;
  constexpr RandomKey() = default;
  constexpr explicit RandomKey(std::uint64_t seed) : key(mix(seed)) {}
  constexpr RandomKey with(std::uint64_t value) const {
    RandomKey k;
    k.key = combine(key, value);
    return k;
  }
};

constexpr std::uint64_t random_bits(RandomKey key, std::uint64_t index) {
  return mix(mix(key.key ^ mix(index)) + index);
}

// Uniform in [0, 1), 53 bits.
constexpr double random_uniform(RandomKey key, std::uint64_t index) {
  return static_cast<double>(random_bits(key, index) >> 11) * 0x1.0p-53;
}

// Standard normal, by Box and Muller on two independent uniforms of the same index.
inline double random_normal(RandomKey key, std::uint64_t index) {
  double u = static_cast<double>((random_bits(key, 2 * index) >> 11) + 1) * 0x1.0p-53;
  double v = random_uniform(key, 2 * index + 1);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586476925 * v);
}

// Uniform integer in [0, bound).
constexpr std::uint64_t random_below(RandomKey key, std::uint64_t index, std::uint64_t bound) {
  return random_bits(key, index) % bound;
}

}  // namespace unity
