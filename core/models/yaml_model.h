// Models as YAML files:
//
//   format: unity-model
//   version: 1
//   name: two-tower
//   description: two towers joined by a sum          # optional
//   options: {batch: 32, hidden: 16}                 # sizes that `shape`s and attributes may name; batch: default per
//   GPU inputs:
//     user: {shape: [batch, 8]}                      # dtype: f32 (default) or i32
//   weights:
//     user.weight: {shape: [8, hidden], init: normal, scale: 0.1}
//   states:                                          # optional: leaves that are not trained
//     norm.mean: {shape: [hidden], init: zeros}
//   weights_file: two-tower.safetensors              # optional: initial values by name, relative to this file
//   layers:                                          # any operator that runs (core/ops/operators.def), in order
//     - {name: user.hidden, op: matmul, attributes: {activation: relu}, inputs: [user, user.weight]}
//   outputs: [loss, logits]                          # the loss first
//   optimizer: sgd 0.01                              # optional
//
// Sizes are whole numbers, options, or products of such: 4*hidden. The r-th of several results of a layer is NAME.r.
// Inputs, weights and layers share one set of names.
#pragma once

#include "core/models/family.h"

namespace unity {

// InputError "file:line:column: ..." with found and expected, on reading and (for operands that don't fit) on building.
ModelDefinition load_model_file(const std::string& path);

}  // namespace unity
