// A Plan: what to run where. A PCG, a machine mapping for each operator and each stored leaf, and how it was derived.
#pragma once

#include <optional>
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
  Picoseconds lower_bound;   // no plan of the model on the machine is faster (core/search/lower_bound.h); 0: not known
  SearchLog log;             // empty in plans that are older
  std::string profile = {};  // whose measured times it was found with, in words; empty: estimates alone
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

  // By which the plan is slower than the certificate, at most the distance to the fastest plan: 0.19 of 1.19 times its
  // time. None without a certificate.
  std::optional<double> optimality_gap() const {
    if (search.lower_bound.count <= 0) return std::nullopt;
    return static_cast<double>(prediction.iteration.count) / static_cast<double>(search.lower_bound.count) - 1;
  }
};

// JSON, format "unity-plan", with a checksum. Loading checks everything: InputError names file, place, found, expected.
// A plan that a person has changed is one without the checksum.
std::string plan_to_json(const Plan& plan);
Plan plan_from_json(const std::string& text, const std::string& file);
void save_plan(const Plan& plan, const std::string& path);
Plan load_plan(const std::string& path);

// Mappings fit their grids and the machine. Error names the node.
Result<void> check_plan(const Plan& plan, const Topology& topology);

}  // namespace unity
