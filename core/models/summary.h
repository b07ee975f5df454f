// What `unity show MODEL` says of a graph.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/pcg.h"

namespace unity {

struct ModelFacts {
  std::int64_t parameters = 0;        // elements of all weights
  std::int64_t macs_per_sample = 0;   // multiply-adds of the forward contractions (matmuls, convolutions), per sample
  std::int64_t operators = 0;         // that run: neither leaves nor parallelization operators
  std::int64_t activation_bytes = 0;  // of all results of those operators, for the whole batch
};

// A part of the model: its blocks are alike but for their number ("encoder.*": 24 blocks), facts are of one block.
struct ModelBlock {
  std::string name;  // label up to its first number, which is written *; else the label's first component
  int count = 1;
  ModelFacts facts;  // of all blocks of the group divided by count, rounded down
  bool even = true;  // nothing was rounded
};

struct ModelSummary {
  std::int64_t batch = 1;  // dimension 0 of the first input
  ModelFacts facts;
  std::vector<ModelBlock> blocks;  // in order of first appearance; inputs belong to none
};

ModelSummary summarize(const Pcg& pcg);

// Multiply-adds of a node: half the FLOPs of a contraction, that is of an operator with an axis that two operands walk
// and its (non-scalar) result does not; 0 for all others.
std::int64_t multiply_adds(const Node& node);

}  // namespace unity
