// --jitter --seed --straggler: devices that are not as fast as their specification says.
#pragma once

#include <string>
#include <vector>

#include "simulator/options.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace unity::cli {

struct NoiseOptions {
  double jitter = 0;
  std::uint64_t seed = 1;
  std::vector<std::string> stragglers;  // "3=1.5"

  void add(CLI::App& command, CLI::Option* excludes);
  Noise noise() const;  // InputError
};

}  // namespace unity::cli
