// --scale: what if a part of the machine were faster.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/machine/scale.h"
#include "core/plan/program.h"
#include "simulator/simulate.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace unity::cli {

struct ScaleOptions {
  std::vector<std::string> texts;

  void add(CLI::App& command, CLI::Option* excludes = nullptr);
  std::vector<Scale> parse() const;  // InputError
};

// What the scales change: the iteration, and what its critical path is made of. Both results have traces.
void print_change(const std::vector<Scale>& scales, const Program& program, const SimulationResult& before,
                  const SimulationResult& after);
// scale (texts), unscaled_iteration_seconds, speedup.
nlohmann::ordered_json change_json(const std::vector<Scale>& scales, const SimulationResult& before,
                                   const SimulationResult& after);

}  // namespace unity::cli
