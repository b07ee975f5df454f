// The built-in models: forward graphs with their loss, without parallelism.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/graph/model_spec.h"
#include "core/graph/pcg.h"

namespace unity {

struct ModelInfo {
  std::string name;
  std::string description;
  std::int64_t batch_per_gpu = 1;
  std::map<std::string, std::int64_t> options;  // every option the model takes, with its default; "batch" is global
  std::string optimizer;                        // "sgd 0.01", "adam 1e-4": kind and learning rate
  std::string loss;                             // the operator: "cross_entropy"
  std::vector<std::string> datasets;            // that suit its inputs: "synthetic", "digits", "mnist"
  std::string weights_file;                     // path of a safetensors file of initial values; empty: none
  std::string optimizer_place;                  // "file:line:column" of a model file's; empty: built-in, or the default
  std::string outputs_place;                    // "file:line:column" of a model file's outputs; empty: built-in
};

// Built-in names, sorted.
std::vector<std::string> model_names();

// Facts on a built-in model, or on a model file (a path that ends in .yaml or .yml). InputError with the nearest name.
ModelInfo model_info(const std::string& name);

// The model's graph; outputs: loss, logits. Inputs have the batch as their dimension 0. InputError on unknown names and
// options, and on options that don't fit each other.
Pcg build_model(const ModelSpec& spec);

// Whether a graph may be the built-in model, however rewritten and parallelized: it has the same inputs, weights and
// states. Error: the first that differs. Of model files, which may have changed since, nothing is asked.
Result<void> check_model(const ModelSpec& spec, const Pcg& graph);

}  // namespace unity
