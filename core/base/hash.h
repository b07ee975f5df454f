// 64-bit hashing that is the same on every machine and in every run (unlike std::hash), for canonical hashes and file
// keys.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace unity {

using Hash = std::uint64_t;

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection on 64-bit words that avalanches.
constexpr Hash mix(Hash x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr Hash combine(Hash seed, Hash value) { return mix(seed ^ (mix(value) + (seed << 6))); }

constexpr Hash hash_text(std::string_view text) {  // FNV-1a, then mixed
  Hash h = 0xcbf29ce484222325u;
  for (char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return mix(h);
}

inline Hash hash_number(double x) { return mix(std::bit_cast<Hash>(x)); }

}  // namespace unity
