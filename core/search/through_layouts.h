// Through the parallelization operators of a graph: where a value comes from, and who reads it.
#pragma once

#include <utility>
#include <vector>

#include "core/graph/pcg.h"

namespace unity {

// The result of an operator or leaf that `v` is a layout of.
ValueRef source_of(const Pcg& pcg, ValueRef v);

// The operators that read a leaf, with the operand's number. `uses`: of the graph.
std::vector<std::pair<NodeId, std::size_t>> readers(const Pcg& pcg, const std::vector<std::vector<Pcg::Use>>& uses,
                                                    NodeId leaf);

}  // namespace unity
