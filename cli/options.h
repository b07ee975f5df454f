// Groups of options that several subcommands share, and what they stand for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/pcg.h"
#include "core/machine/topology.h"
#include "core/models/models.h"
#include "core/plan/plan.h"
#include "core/report/search_settings.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace unity::cli {

// --topology --nodes --devices --profile
struct MachineOptions {
  std::string topology;
  std::string profile;  // a device profile for all devices; empty: as the device files say
  int nodes = 0;        // 0: as the topology says
  int devices = 0;      // 0: all

  void add(CLI::App& command, bool required);
  Topology load() const;  // InputError
  void apply_profile(Topology& loaded) const;
};

// MODEL --batch-per-gpu --global-batch --seq-len --layers --option NAME=VALUE
struct ModelOptions : report::ModelChoice {
  void add(CLI::App& command);        // with the positional MODEL
  void add_sizes(CLI::App& command);  // without
};

// The option takes whole numbers of at least 1; anything else is refused, saying so.
CLI::Option* at_least_one(CLI::Option* option);

// The same from 0 on, where negative ones would wrap around.
CLI::Option* from_zero(CLI::Option* option);

// --json
void add_json(CLI::App& command, bool& json);

using report::parse_memory;

// InputError unless a file can be created at the path. Called before long work whose result goes there. Empty paths
// pass.
void require_writable(const std::string& path);

// The machine a plan was made for, unless the options name another; and the check that the plan fits it.
Topology machine_of(const Plan& plan, const MachineOptions& options, const std::string& file);

// On standard error, where a plan was found with measured times and the machine has none.
void warn_of_estimates(const Plan& plan, const Topology& topology, const std::string& file);

// Whether the name is a plan file rather than a model: it ends in .json.
bool is_plan_path(const std::string& name);

}  // namespace unity::cli
