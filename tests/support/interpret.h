// Runs a Program task by task in f64 with the reference evaluator: the executor that is obviously right, to test
// lowering.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/graph/evaluate.h"
#include "core/plan/program.h"

namespace unity::test {

struct Interpretation {
  std::vector<std::vector<double>> buffers;  // by BufferId, after the last task
  std::vector<std::vector<int>> index_buffers;
};

// Inputs and weights by leaf name, as logical tensors.
Interpretation interpret(const Program& program, const LeafValues& leaves, std::uint64_t seed = 0);

// Adds up the summands of an output of the program.
std::vector<double> output_value(const Program& program, const Interpretation& run, std::size_t output);

// The gradient that each update task of a weight reads, put together over its shards; CHECKs that copies agree exactly.
std::map<std::string, std::vector<double>> weight_gradients(const Program& program, const Interpretation& run);

}  // namespace unity::test
