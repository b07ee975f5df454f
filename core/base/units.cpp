#include "core/base/units.h"

#include <array>
#include <charconv>
#include <cmath>

#include "core/base/longest_time.h"

namespace unity {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array kByteUnits = {Unit{"B", 1},
                                   Unit{"kB", 1e3},
                                   Unit{"KB", 1e3},
                                   Unit{"MB", 1e6},
                                   Unit{"GB", 1e9},
                                   Unit{"TB", 1e12},
                                   Unit{"KiB", 1024.0},
                                   Unit{"MiB", 1048576.0},
                                   Unit{"GiB", 1073741824.0},
                                   Unit{"TiB", 1099511627776.0}};
constexpr std::array kTimeUnits = {Unit{"ps", 1}, Unit{"ns", 1e3}, Unit{"us", 1e6}, Unit{"ms", 1e9}, Unit{"s", 1e12}};
constexpr std::array kBandwidthUnits = {Unit{"B/s", 1},        Unit{"kB/s", 1e3},  Unit{"MB/s", 1e6},
                                        Unit{"GB/s", 1e9},     Unit{"TB/s", 1e12}, Unit{"Mbit/s", 1.25e5},
                                        Unit{"Gbit/s", 1.25e8}};
constexpr std::array kComputeUnits = {Unit{"MFLOPS", 1e6}, Unit{"GFLOPS", 1e9}, Unit{"TFLOPS", 1e12},
                                      Unit{"PFLOPS", 1e15}};

constexpr double kMost = 1e200;  // sums of quantities, and multiples, stay finite

template <std::size_t N>
Result<double> parse_quantity(std::string_view text, const std::array<Unit, N>& units, std::string_view kind) {
  double number = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || !std::isfinite(number))
    return fail("{}: found '{}', expected a number with a unit", kind, text);
  while (rest != end && *rest == ' ') ++rest;
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  for (const Unit& u : units) {
    if (u.name != unit) continue;
    if (!(std::abs(number * u.factor) <= kMost)) return fail("{}: found '{}', which is out of range", kind, text);
    return number * u.factor;
  }
  std::string names;
  for (const Unit& u : units) names += (names.empty() ? "" : ", ") + std::string(u.name);
  return fail("{}: found '{}' with unit '{}', expected one of {}", kind, text, unit, names);
}

// Rounded, of a quantity that is counted.
template <std::size_t N>
Result<std::int64_t> parse_count(std::string_view text, const std::array<Unit, N>& units, std::string_view kind,
                                 double most) {
  double count = UNITY_TRY(parse_quantity(text, units, kind));
  if (!(std::abs(count) <= most)) return fail("{}: found '{}', which is out of range", kind, text);
  return std::int64_t{std::llround(count)};
}

template <std::size_t N>
std::string print_quantity(double value, const std::array<Unit, N>& units, double base) {
  const Unit* best = &units[0];
  for (const Unit& u : units)
    if (u.name.find('i') == std::string_view::npos && u.name != "KB" && std::abs(value) >= u.factor * base) best = &u;
  return fmt::format("{:.4g} {}", value / best->factor, best->name);
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  return Bytes{UNITY_TRY(parse_count(text, kByteUnits, "size", 9.2e18))};
}
Result<Picoseconds> parse_time(std::string_view text) {
  return Picoseconds{UNITY_TRY(parse_count(text, kTimeUnits, "time", static_cast<double>(kLongestTime.count)))};
}
Result<BytesPerSecond> parse_bandwidth(std::string_view text) {
  return BytesPerSecond{UNITY_TRY(parse_quantity(text, kBandwidthUnits, "bandwidth"))};
}
Result<FlopsPerSecond> parse_compute_rate(std::string_view text) {
  return FlopsPerSecond{UNITY_TRY(parse_quantity(text, kComputeUnits, "compute rate"))};
}

std::string to_string(Bytes bytes) { return print_quantity(static_cast<double>(bytes.count), kByteUnits, 1); }
std::string at_least(Bytes bytes) {
  // In the last of four digits one more, if need be.
  std::int64_t step = 1;
  while (bytes.count / step >= 10000) step *= 10;
  return to_string(Bytes{(bytes.count + step - 1) / step * step});
}
std::string to_string(Picoseconds time) { return print_quantity(static_cast<double>(time.count), kTimeUnits, 1); }
std::string to_string(BytesPerSecond rate) { return print_quantity(rate.rate, kBandwidthUnits, 1); }
std::string to_string(FlopsPerSecond rate) { return print_quantity(rate.rate, kComputeUnits, 1); }

std::string count_to_string(double count) {
  constexpr std::array kPrefixes = {Unit{"", 1}, Unit{" k", 1e3}, Unit{" M", 1e6}, Unit{" G", 1e9}, Unit{" T", 1e12}};
  const Unit* best = &kPrefixes[0];
  for (const Unit& u : kPrefixes)
    if (std::abs(count) >= u.factor) best = &u;
  return fmt::format("{:.4g}{}", count / best->factor, best->name);
}

}  // namespace unity
