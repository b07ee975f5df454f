// A Plan: what to run where. A PCG, a machine mapping for each operator and each stored leaf, and how it was derived.
#pragma once

#include <string>
#include <vector>

#include "core/graph/model_spec.h"
#include "core/graph/pcg.h"
#include "core/machine/mapping.h"
#include "core/plan/program.h"
#include "core/plan/schedule.h"
#include "core/plan/search_log.h"

namespace unity {

// A rule applied at a node (the label of the matched root), with its degree.
struct DerivationStep {
  std::string rule;
  std::string where;
  int degree = 0;                 // 0: the rule has none
  std::int64_t iteration_ps = 0;  // predicted after this step; 0: not scored
};

struct SearchRecord {
  std::string strategy;
  std::string stopped_because;
  std::int64_t candidates = 0;
  double seconds = 0;
  SearchLog log;  // empty in plans that are older
};

struct Prediction {
  Picoseconds iteration;
  Bytes peak_memory;  // largest device
  Bytes communicated;
};

struct Plan {
  static constexpr int kVersion = 1;
  ModelSpec model;
  std::string topology;  // name or path, as given
  int nodes = 1;         // with which the topology is loaded
  int devices = 1;       // of which the first ones are used
  Hash topology_hash = 0;
  std::int64_t global_batch = 0;
  Pcg pcg;
  std::vector<MachineMapping> mappings;  // by node; empty strides for parallelization operators and serial nodes
  OptimizerSpec optimizer;
  Schedule schedule;
  std::vector<DerivationStep> derivation;
  SearchRecord search;
  Prediction prediction;
};

// JSON, format "unity-plan". Loading checks everything: InputError names file, place, found, expected.
std::string plan_to_json(const Plan& plan);
Plan plan_from_json(const std::string& text, const std::string& file);
void save_plan(const Plan& plan, const std::string& path);
Plan load_plan(const std::string& path);

// Mappings fit their grids and the machine. Error names the node.
Result<void> check_plan(const Plan& plan, const Topology& topology);

}  // namespace unity
