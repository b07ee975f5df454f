#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/graph/evaluate.h"
#include "core/graph/text.h"
#include "core/ops/reference.h"

using namespace unity;

namespace {

LogicalTensor reals(Dims dims, std::vector<double> values) {
  LogicalTensor t({std::move(dims), DType::f64});
  std::copy(values.begin(), values.end(), t.as<double>());
  return t;
}

}  // namespace

TEST_CASE("a graph is evaluated leaf to output on logical tensors") {
  Builder b("two rows");
  ValueRef x = b.input("x", {2, 2});
  ValueRef w = b.weight("w", {2, 1});
  Pcg pcg = std::move(b).finish({b.apply("relu", {}, {b.apply("matmul", {}, {x, w})})});
  // Rows (1, 2) and (3, -4) times (1, 1): 3 and -1, of which ReLU keeps 3.
  LogicalTensor y = evaluate_outputs(pcg, {{"x", reals({2, 2}, {1, 2, 3, -4})}, {"w", reals({2, 1}, {1, 1})}})[0];
  CHECK(y == reals({2, 1}, {3, 0}));
}

TEST_CASE("a parallel graph has the values of the graph it parallelises, exactly in modular arithmetic") {
  Builder serial_builder("serial"), b("split over the reduction");
  Pcg serial_pcg = std::move(serial_builder)
                       .finish({serial_builder.apply(
                           "matmul", {}, {serial_builder.input("x", {4, 6}), serial_builder.weight("w", {6, 8})})});
  ValueRef x = b.input("x", {4, 6}), w = b.weight("w", {6, 8});
  ValueRef xs = b.apply("partition", {1, 2}, {x}), ws = b.apply("partition", {0, 2}, {w});
  Pcg parallel_pcg = std::move(b).finish({b.apply("reduce", {2}, {b.apply("matmul", {}, {xs, ws})})});
  EvaluateOptions exact{DType::mod, 7, 0};
  LeafValues leaves = random_leaves(serial_pcg, exact);
  CHECK(evaluate_outputs(serial_pcg, leaves, exact) == evaluate_outputs(parallel_pcg, leaves, exact));
}

TEST_CASE("a missing or misshapen leaf is an error that names it") {
  Builder b("g");
  ValueRef x = b.input("x", {2});
  Pcg pcg = std::move(b).finish({b.apply("relu", {}, {x})});
  CHECK_THROWS_WITH(evaluate(pcg, {}), Catch::Contains("leaf 'x' has no value, expected f64[2]"));
  CHECK_THROWS_WITH(evaluate(pcg, {{"x", reals({3}, {1, 2, 3})}}), Catch::Contains("f64[3], expected f64[2]"));
}

TEST_CASE("indices are bounded by the rows of the table, not by its columns, and masks not at all") {
  Pcg pcg = parse_pcg(
      "pcg g { ids = input([2, 3], dtype=\"i32\") table = weight([30, 8]) mask = input([2, 3, 1], dtype=\"i32\")\n"
      "return mul(embedding(ids, table), cast(\"f32\", mask)) }");
  CHECK(index_bound(pcg, NodeId(0)) == 30);
  CHECK(index_bound(pcg, NodeId(2)) == kNoIndexBound);
}
