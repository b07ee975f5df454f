#include "cli/noise_options.h"

#include <charconv>

#include <CLI/CLI.hpp>

#include "cli/options.h"
#include "core/base/error.h"

namespace unity::cli {
namespace {

template <class T>
bool parse_all(std::string_view text, T& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

void NoiseOptions::add(CLI::App& command, CLI::Option* excludes) {
  command
      .add_option("--jitter", jitter,
                  "Draw each task's time: standard deviation of its logarithm, such as 0.05 (default 0)")
      ->excludes(excludes);
  from_zero(command.add_option("--seed", seed, "Of --jitter"))->excludes(excludes);
  command
      .add_option("--straggler", stragglers,
                  "A device, by number, whose tasks take FACTOR times as long; may be repeated")
      ->type_name("DEVICE=FACTOR")
      ->allow_extra_args(false)
      ->excludes(excludes);
}

Noise NoiseOptions::noise() const {
  Noise noise{seed, jitter, {}};
  for (const std::string& text : stragglers) {
    std::string_view all = text;
    std::size_t equals = all.find('=');
    int device = 0;
    double factor = 0;
    if (equals == std::string::npos || !parse_all(all.substr(0, equals), device) ||
        !parse_all(all.substr(equals + 1), factor))
      throw_input_error("--straggler: found '{}', expected DEVICE=FACTOR such as 3=1.5", text);
    noise.stragglers.emplace_back(DeviceId(device), factor);
  }
  return noise;
}

}  // namespace unity::cli
