#include "cli/checks.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/base/error.h"

namespace unity::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOutput = "output";  // the name of the check that outputs have

bool is_output(const CLI::Option& option) {
  try {
    return const_cast<CLI::Option&>(option).get_validator(kOutput) != nullptr;
  } catch (const CLI::OptionNotFound&) {
    return false;
  }
}

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
  return option->check(
      [](const std::string& text) -> std::string {
        if (text == "-") return "found '-', expected a file to write; standard output is /dev/stdout";
        return {};
      },
      "", kOutput);
}

void refuse_overwriting(const CLI::App& command) {
  struct File {
    const CLI::Option* option;
    fs::path path;
  };
  std::vector<File> read, written;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& text : option->count() ? option->results() : std::vector<std::string>{})
      (is_output(*option) ? written : read).push_back({option, text});
  for (std::size_t i = 0; i < written.size(); ++i) {
    const File& out = written[i];
    std::error_code error;
    for (const File& in : read)
      if (fs::is_regular_file(out.path, error) && fs::equivalent(out.path, in.path, error))
        throw_input_error("{}: {}: found '{}', which {} reads; expected another file to write", command.get_name(),
                          out.option->get_name(), out.path.string(), in.option->get_name());
    for (std::size_t k = 0; k < i; ++k)
      if (fs::weakly_canonical(out.path, error) == fs::weakly_canonical(written[k].path, error) &&
          (!fs::exists(out.path, error) || fs::is_regular_file(out.path, error)))
        throw_input_error("{}: {} and {}: found '{}' twice, expected a file for each", command.get_name(),
                          written[k].option->get_name(), out.option->get_name(), out.path.string());
  }
}

}  // namespace unity::cli
