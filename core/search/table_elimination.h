// The least sum of tables over variables of few values each, of which a table is over one or two: by eliminating one
// variable after the other, that of the smallest table over its neighbours first (Bertele and Brioschi, "Nonserial
// Dynamic Programming", 1972; Dechter, "Bucket elimination", 1999). Takes and holds as much as the width of that order
// has it: of a graph that is nearly a tree or series-parallel, little.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace unity {

struct SumOfTables {
  struct Pair {
    int a = 0, b = 0;                // variables, not the same
    std::vector<std::int64_t> cost;  // by value of a, by value of b
  };
  std::vector<std::vector<std::int64_t>> own;  // by variable, by value; each variable has one at least
  std::vector<Pair> pairs;
};

struct LeastSum {
  std::int64_t cost = 0;
  std::vector<int> values;  // by variable
  bool exact = true;
};

// As long as no table has more than `most` entries, exact. Beyond, variables are held at the values that are the best
// so far (at first each at its best among those before it) until the others are no wider, and others are held in the
// next round, as long as rounds bring a gain: each is the least under what it holds. The first of equal values.
LeastSum least_sum(const SumOfTables& sum, std::size_t most);

}  // namespace unity
