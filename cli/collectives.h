// Options on collectives, and what `unity simulate` says of them.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/options.h"
#include "simulator/simulate.h"

namespace unity::cli {

// --collective-algorithm --collective-protocol --collective-chunk --steps
struct CollectiveSettings {
  std::string algorithm = "auto", protocol, chunk;
  bool steps = false;

  void add(CLI::App& command);
  CollectiveOptions options() const;  // InputError
};

// Which algorithm each communication takes: by task with all alternatives, or summed up as a table.
nlohmann::ordered_json collectives_json(const Program& program, const SimulationResult& result);
void print_collectives(const Program& program, const SimulationResult& result);

// --collective KIND --bytes S: one collective alone on the machine.
struct AloneOptions {
  std::string kind, bytes;
  void add(CLI::App& command);
};
void simulate_alone(const AloneOptions& what, const MachineOptions& machine, const CollectiveSettings& settings,
                    bool json);

}  // namespace unity::cli
