#include <catch2/catch.hpp>

#include "core/generate/enumerate.h"
#include "tests/support/families.h"

namespace unity {
namespace {

using Counts = std::vector<std::int64_t>;

TEST_CASE("a chain of one operator has one graph of each length") {
  Enumeration e = enumerate({"chain", {serial_leaf("x", {2, 2})}, {term_operator("relu")}, 3, 1});
  CHECK(e.counts.graphs == Counts{1, 1, 1, 1});  // x, relu(x), relu(relu(x)), ..
  CHECK(e.counts.applications == 3);
  CHECK(e.counts.ill_typed == 0);
  CHECK(e.counts.classes == 0);  // the stand-in of relu is not idempotent
}

TEST_CASE("ill-typed graphs are counted and never built") {
  Family family{"cuts",
                {serial_leaf("x", {4})},
                {term_operator("partition", {std::int64_t{0}, std::int64_t{2}}),
                 term_operator("combine", {std::int64_t{0}, std::int64_t{2}})},
                2,
                1};
  Enumeration e = enumerate(family);
  // Of 1 operator: partition(x); combine(x) has nothing to join. Of 2: each operator on partition(x).
  CHECK(e.counts.graphs == Counts{1, 1, 2});
  CHECK(e.counts.applications == 4);
  CHECK(e.counts.ill_typed == 1);
  CHECK(e.counts.classes == 1);  // x and combine(partition(x))
}

TEST_CASE("operands of commutative operators are ordered, and shared terms count once") {
  Enumeration e = enumerate({"sums", {serial_leaf("x", {2}), serial_leaf("y", {2})}, {term_operator("add")}, 2, 1});
  // One add: x+x, x+y, y+y. Two: each of these three with x, with y, and with itself.
  CHECK(e.counts.graphs == Counts{2, 3, 9});
  CHECK(e.counts.duplicates == 0);
  // (x+x)+y = (x+y)+x, (y+y)+x = (x+y)+y, and (x+y)+(x+y) equals no other sum of two adds.
  CHECK(e.counts.classes == 2);
}

TEST_CASE("results of an operator are all used or results of the graph") {
  Family family{
      "cuts",
      {serial_leaf("x", {2}), serial_leaf("y", {2})},
      {term_operator("concat", {std::int64_t{0}}, 2), term_operator("split", {std::int64_t{0}, Integers{2, 2}})},
      2,
      2};
  Enumeration e = enumerate(family);
  std::int64_t splits = 0;
  for (const auto& graphs : e.classes)
    for (TermGraph g : graphs)
      if (g.second >= 0 && e.terms.value(g.first).node >= 0 &&
          e.terms.value(g.first).node == e.terms.value(g.second).node)
        ++splits;
  CHECK(splits == 2);  // split(concat(x, y)) = {x, y} = split(concat(y, x)), results exchanged
  // That one; joining three leaves in either order, for each of 8 triples; and xxx with y, yyy with x beside it.
  CHECK(e.counts.classes == 11);
}

TEST_CASE("leaves may be laid out in every way of degree 2") {
  // Serial, split in either dimension, two copies, two summands.
  CHECK(leaf_layouts({{4, 6}, DType::f32}).size() == 5);
  // Indices have no summands.
  CHECK(leaf_layouts({{4}, DType::i32}).size() == 3);
}

TEST_CASE("an index beyond a table's rows is ill-typed") {
  FamilyLeaf ids{"i", {serial({{2}, DType::i32})}, 6};
  Enumeration e = enumerate({"lookups", {ids, serial_leaf("t", {6, 4})}, {term_operator("embedding")}, 2, 1});
  // embedding(i, t) has 2 rows: indices below 6 do not fit it.
  CHECK(e.counts.graphs[1] == 1);
  CHECK(e.counts.graphs[2] == 0);
}

TEST_CASE("families are selected by name") {
  CHECK(select_families(default_families(), {"relu"}).size() == 1);
  CHECK_THROWS_WITH(select_families(default_families(), {"rleu"}), Catch::Contains("did you mean 'relu'"));
}

}  // namespace
}  // namespace unity
