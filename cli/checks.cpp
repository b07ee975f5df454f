#include "cli/checks.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace unity::cli {
namespace {

std::optional<double> finite(const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || !std::isfinite(number)) return std::nullopt;
  return number;
}

}  // namespace

CLI::Option* above_zero(CLI::Option* option) {
  return option->check([](const std::string& text) -> std::string {
    if (auto number = finite(text); number && *number > 0) return {};
    return fmt::format("found '{}', expected a number above 0", text);
  });
}

CLI::Option* between(double least, double most, CLI::Option* option) {
  return option->check([least, most](const std::string& text) -> std::string {
    if (auto number = finite(text); number && *number >= least && *number <= most) return {};
    return fmt::format("found '{}', expected a number from {} to {}", text, least, most);
  });
}

CLI::Option* output_file(CLI::Option* option) {
  return option->check([](const std::string& text) -> std::string {
    if (text == "-") return "found '-', expected a file to write; standard output is /dev/stdout";
    return {};
  });
}

}  // namespace unity::cli
