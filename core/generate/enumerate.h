// All graphs of a family up to its size, in classes of equal graphs.
//
// A graph is the set of its results: one or two values of a TermTable that no other operator of the graph consumes.
// Terms are hash-consed and operands of commutative operators ordered, so each graph is built exactly once (leaves are
// fixed: graphs that differ by renaming equal leaves are both there). Two graphs are equal when their results have
// equal logical tensors and equal parallel shapes.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/generate/family.h"

namespace unity {

struct TermGraph {
  std::int32_t first = -1, second = -1;  // values; second is -1 for graphs of one result
  bool operator==(const TermGraph&) const = default;
};

struct EnumerationCounts {
  std::int64_t applications = 0;     // operator and operands that were tried
  std::int64_t ill_typed = 0;        // of these
  std::int64_t duplicates = 0;       // of these: the same term was there
  std::int64_t terms = 0;            // distinct values
  std::vector<std::int64_t> graphs;  // by number of operators
  std::int64_t classes = 0;          // of at least two graphs
  std::int64_t class_graphs = 0;     // graphs in these
};

struct Enumeration {
  TermTable terms;
  std::vector<std::int32_t> leaf_of;  // by leaf value: index of the family's leaf
  // Graphs of equal results, at least two in each; in order of size, then of construction. A second result stands in
  // the order that makes the results of the whole class equal in order.
  std::vector<std::vector<TermGraph>> classes;
  EnumerationCounts counts;
};

Enumeration enumerate(const Family& family);

int operators_of(const TermTable& terms, TermGraph graph);

// The nodes of a graph, in increasing (hence topological) order.
std::vector<std::int32_t> nodes_of(const TermTable& terms, TermGraph graph);

}  // namespace unity
