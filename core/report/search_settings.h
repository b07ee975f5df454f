// What a search is asked for. Each setting is listed once, with its help: as options of commands (cli/search_options.h)
// and as fields of the window.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/graph/model_spec.h"
#include "core/machine/topology.h"
#include "core/models/models.h"
#include "core/plan/optimizer.h"
#include "core/search/search.h"

namespace unity::report {

// Attributes of a plan that say how it runs (core/plan/schedule.h), as text; empty: as the plan has.
struct ScheduleSettings {
  std::string order, overlap, bucket, remat, offload, weights, zero_stage, fuse;
  // InputError on what can not be read.
  void apply(Schedule& schedule) const;
};

// The model's own. InputError, of a model file with its place.
OptimizerSpec optimizer_of(const ModelInfo& info);

struct SearchSettings {
  SearchOptions search;
  std::string memory_limit;
  std::string parallelism;         // comma-separated
  std::string optimizer;           // "adam 1e-4"; empty: the model's
  std::vector<std::string> rules;  // files of proved rules
  std::string mappings;            // a file of mapping families
  ScheduleSettings schedule;

  // For one strategy and model. InputError on values out of range.
  SearchOptions options(const std::string& strategy, const std::string& model) const;
  // The machine with the mapping families of the file, in place of those that its own file names. InputError.
  void add_mappings(Topology& topology) const;
};

// A setting: where it is kept and what it does. Whole numbers are at least 1, or 0 for the default; a bool is what can
// be left out ("no-splitting").
struct SettingField {
  std::string name;  // "budget"
  std::string help;
  std::variant<int*, double*, std::uint64_t*, bool*, std::string*, std::vector<std::string>*> value;
};
// --budget --alpha --jobs --seed ..; then what can be left out.
std::vector<SettingField> setting_fields(SearchSettings& settings);
// --schedule --overlap --bucket --remat --offload --weight-versions --zero-stage --fuse
std::vector<SettingField> setting_fields(ScheduleSettings& settings);

// A model and its sizes.
struct ModelChoice {
  std::string model;
  std::int64_t batch_per_gpu = 0;  // 0: the model's default
  std::int64_t global_batch = 0;   // 0: batch_per_gpu x devices
  std::int64_t seq_len = 0, layers = 0;
  std::vector<std::string> options;  // "NAME=VALUE"

  // The spec with its global batch. InputError on an unknown model or option.
  ModelSpec spec(int devices) const;
};

// "a,b,c" -> {"a", "b", "c"}; InputError on empty names.
std::vector<std::string> split_list(const std::string& option, const std::string& text);

// "16 GB", or a number of bytes; none for an empty text.
Bytes parse_memory(const std::string& option, const std::string& text);

}  // namespace unity::report
