// Groups of options that several subcommands share, and what they stand for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/model_spec.h"
#include "core/graph/pcg.h"
#include "core/machine/topology.h"
#include "core/models/models.h"
#include "core/plan/plan.h"

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
struct ModelOptions {
  std::string model;
  std::int64_t batch_per_gpu = 0;  // 0: the model's default
  std::int64_t global_batch = 0;   // 0: batch_per_gpu x devices
  std::int64_t seq_len = 0, layers = 0;
  std::vector<std::string> options;

  void add(CLI::App& command);        // with the positional MODEL
  void add_sizes(CLI::App& command);  // without
  // The spec with its global batch. InputError on an unknown model or option.
  ModelSpec spec(int devices) const;
};

// The option takes whole numbers of at least 1; anything else is refused, saying so.
CLI::Option* at_least_one(CLI::Option* option);

// --json
void add_json(CLI::App& command, bool& json);

// "16 GB", or a number of bytes; none for an empty text.
Bytes parse_memory(const std::string& option, const std::string& text);

// InputError unless a file can be created at the path. Called before long work whose result goes there. Empty paths
// pass.
void require_writable(const std::string& path);

// The machine a plan was made for, unless the options name another; and the check that the plan fits it.
Topology machine_of(const Plan& plan, const MachineOptions& options, const std::string& file);

// Whether the name is a plan file rather than a model: it ends in .json.
bool is_plan_path(const std::string& name);

}  // namespace unity::cli
