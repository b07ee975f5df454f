// 64-bit hashing that is the same on every machine and in every run (unlike std::hash), for canonical hashes and file
// keys.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
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

// Of data in memory; about as fast as it can be read.
inline Hash hash_bytes(std::span<const std::byte> bytes) {
  // Four chains, so that one does not wait for another's multiplication.
  Hash h[4] = {1, 2, 3, 4};
  std::size_t i = 0;
  for (; i + 32 <= bytes.size(); i += 32)
    for (std::size_t lane = 0; lane < 4; ++lane) {
      Hash word = 0;
      std::memcpy(&word, bytes.data() + i + 8 * lane, 8);
      h[lane] = (std::rotl(h[lane], 23) ^ word) * 0x9e3779b97f4a7c15u;
    }
  Hash all = combine(combine(mix(h[0]), mix(h[1])), combine(mix(h[2]), mix(h[3])));
  for (; i < bytes.size(); ++i) all = (all ^ static_cast<Hash>(bytes[i])) * 0x100000001b3u;
  return combine(all, bytes.size());
}

inline Hash hash_number(double x) { return mix(std::bit_cast<Hash>(x)); }

}  // namespace unity
