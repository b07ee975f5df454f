// Small parallel graphs for tests: parallelization operators as functions, and natural mappings for every node.
#pragma once

#include "core/graph/builder.h"
#include "core/machine/mapping.h"

namespace unity::test {

inline ValueRef partition(Builder& b, int dim, int d, ValueRef x) {
  return b.apply("partition", {std::int64_t{dim}, std::int64_t{d}}, {x});
}
inline ValueRef combine(Builder& b, int dim, int d, ValueRef x) {
  return b.apply("combine", {std::int64_t{dim}, std::int64_t{d}}, {x});
}
inline ValueRef replicate(Builder& b, int d, ValueRef x) { return b.apply("replicate", {std::int64_t{d}}, {x}); }
inline ValueRef reduce(Builder& b, int d, ValueRef x) { return b.apply("reduce", {std::int64_t{d}}, {x}); }

// The last grid dimension innermost, packed from device 0.
inline std::vector<MachineMapping> natural_mappings(const Pcg& pcg) {
  std::vector<MachineMapping> mappings(pcg.size());
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    TaskGrid grid = node_grid(pcg, NodeId(static_cast<std::int64_t>(i)));
    int stride = 1;
    mappings[i].strides.resize(grid.size());
    for (std::size_t g = grid.size(); g-- > 0;) {
      mappings[i].strides[g] = stride;
      stride *= grid[g].degree;
    }
  }
  return mappings;
}

}  // namespace unity::test
