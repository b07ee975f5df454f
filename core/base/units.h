// Quantities with their unit in the type. Text forms: "12.5 GB/s", "1.25 us", "16 GB" (decimal prefixes), "16 GiB".
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace unity {

struct Bytes {
  std::int64_t count = 0;
  constexpr auto operator<=>(const Bytes&) const = default;
  constexpr Bytes& operator+=(Bytes other) { return count += other.count, *this; }
  constexpr Bytes& operator-=(Bytes other) { return count -= other.count, *this; }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
  friend constexpr Bytes operator*(Bytes a, std::int64_t n) { return {a.count * n}; }
};

// Simulated and measured time. Integer, so that simulations repeat bit for bit; 2^63 ps are 106 days.
struct Picoseconds {
  std::int64_t count = 0;
  constexpr auto operator<=>(const Picoseconds&) const = default;
  constexpr Picoseconds& operator+=(Picoseconds other) { return count += other.count, *this; }
  friend constexpr Picoseconds operator+(Picoseconds a, Picoseconds b) { return {a.count + b.count}; }
  friend constexpr Picoseconds operator-(Picoseconds a, Picoseconds b) { return {a.count - b.count}; }
  friend constexpr Picoseconds operator*(Picoseconds a, std::int64_t n) { return {a.count * n}; }
  constexpr double seconds() const { return static_cast<double>(count) * 1e-12; }
};

constexpr Picoseconds from_seconds(double seconds) { return {static_cast<std::int64_t>(seconds * 1e12 + 0.5)}; }

struct BytesPerSecond {
  double rate = 0;
  constexpr auto operator<=>(const BytesPerSecond&) const = default;
};

struct FlopsPerSecond {
  double rate = 0;
  constexpr auto operator<=>(const FlopsPerSecond&) const = default;
};

// A number with a unit, as in "12.5 GB/s". Error when the unit is missing, unknown or of another kind.
Result<Bytes> parse_bytes(std::string_view text);                  // B kB MB GB TB KiB MiB GiB TiB
Result<Picoseconds> parse_time(std::string_view text);             // ps ns us ms s
Result<BytesPerSecond> parse_bandwidth(std::string_view text);     // B/s .. TB/s, Mbit/s, Gbit/s
Result<FlopsPerSecond> parse_compute_rate(std::string_view text);  // GFLOPS TFLOPS PFLOPS

std::string to_string(Bytes bytes);          // "3.25 MB"
std::string at_least(Bytes bytes);           // as to_string, rounded up: what is read back holds so many
std::string to_string(Picoseconds time);     // "1.25 ms"
std::string to_string(BytesPerSecond rate);  // "12.5 GB/s"
std::string to_string(FlopsPerSecond rate);  // "15.7 TFLOPS"
std::string count_to_string(double count);   // "335.1 M"

}  // namespace unity
