// What the generator enumerates: a family of operators that belong together, and the leaves that they are applied to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/generate/terms.h"

namespace unity {

// A leaf: each layout is a leaf of its own, with data of its own.
struct FamilyLeaf {
  std::string name;
  std::vector<ParallelShape> layouts;
  std::int64_t index_bound = 0;  // i32 leaves hold indices below it
};

struct Family {
  std::string name;
  std::vector<FamilyLeaf> leaves;
  std::vector<TermOperator> operators;
  int size = 3;   // operators of a graph, at most
  int sinks = 1;  // results of a graph, at most (1 or 2)
};

// How a leaf may be laid out before the graph: serial; degree 2 in one dimension; 2 copies; 2 summands; with `deep`
// degree 4 too, and two of these at once.
std::vector<ParallelShape> leaf_layouts(const Shape& shape, bool deep = false);

// partition and combine of degree 2 in the given dimensions, replicate and reduce.
std::vector<TermOperator> layout_operators(const Integers& dims, std::int64_t degree = 2);

// The families of the default run. `exhaustive`: one operator more in each, and all layouts of leaves.
std::vector<Family> default_families(bool exhaustive = false);

// Restricted to the given names. InputError for a name that is not there.
std::vector<Family> select_families(std::vector<Family> families, const std::vector<std::string>& names);

}  // namespace unity
