// The pass under normalization and the derived rules: it copies a graph, computes some operators with their operands
// laid out otherwise, and joins every producer to every consumer by the canonical chain of parallelization operators.
//
// From shape S to shape T of one logical tensor, the canonical chain is
//   reduce(S.partials / T.partials); per dimension combine(s / g); per dimension partition(t / g); replicate(T.copies /
//   S.copies)
// with degrees s in S and t in T, g = gcd(s, t); operators of degree 1 are left out, chains from one value share their
// common prefix. stack_partials, pipeline and batch are not links of chains.
#pragma once

#include <vector>

#include "core/graph/pcg.h"

namespace unity {

// Parallel shapes of the operands of one node.
using OperandShapes = std::vector<ParallelShape>;

// By node: the shapes its operands shall have, in order of preference; none: as they are.
using Layouts = std::vector<std::vector<OperandShapes>>;

struct Relaid {
  Pcg pcg;
  std::vector<int> chosen;  // by old node: the first alternative that was possible; 0 where there was none to choose
};

// Logical function, and parallel shapes at operands without alternatives and at graph outputs, stay as they are; graph
// outputs alone may get more copies. A weight that is gathered after its storage (partition, then combine) keeps it.
// Dead nodes are removed. Error when no alternative of a node is possible, or a consumer can not get its shape any more
// (copies and summands are never taken back); it names the node.
Result<Relaid> relayout(const Pcg& pcg, const Layouts& layouts);

// partition, combine, replicate, reduce.
bool is_chain_link(const Node& node);

// By node: whether a chain starts here although the node is a link (the stored form of a weight that is gathered).
std::vector<bool> storage_ends(const Pcg& pcg, const std::vector<std::vector<Pcg::Use>>& uses);

// The value from which the chain that ends in `v` starts.
ValueRef chain_source(const Pcg& pcg, const std::vector<bool>& storage_ends, ValueRef v);

}  // namespace unity
