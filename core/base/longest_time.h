// Bounds that keep sums of simulated times within 63 bits.
#pragma once

#include <cmath>

#include "core/base/units.h"

namespace unity {

constexpr Picoseconds kLongestTime{std::int64_t{1} << 61};                // 26 days
constexpr Picoseconds kLongestLatency{std::int64_t{60'000'000'000'000}};  // of a link: added up along routes and rounds

// As from_seconds, but what is longer (or not a number) becomes kLongestTime.
inline Picoseconds bounded_seconds(double seconds) {
  return seconds < kLongestTime.seconds() ? from_seconds(seconds) : kLongestTime;
}

// Rounded, at most kLongestTime; factor >= 0.
inline Picoseconds scaled(Picoseconds time, double factor) {
  double count = static_cast<double>(time.count) * factor;
  return count < static_cast<double>(kLongestTime.count) ? Picoseconds{std::llround(count)} : kLongestTime;
}

}  // namespace unity
