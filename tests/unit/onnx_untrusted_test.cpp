// ONNX files that no exporter writes: constants that do not fit one another, sizes beyond any machine.
#include <catch2/catch.hpp>

#include "core/models/onnx/fold.h"
#include "tests/support/onnx_file.h"

using namespace unity;
using namespace unity::test;
using Catch::Contains;

namespace {

using A = std::map<std::string, OnnxAttribute>;

std::string fold_error(const std::string& op, const std::vector<OnnxTensorRef>& inputs, const A& attributes = {}) {
  OnnxNode node{"", op, "", {}, {"y"}, attributes};
  try {
    fold(node, inputs, 17);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

OnnxTensorRef row(const Integers& values) { return integer_tensor({static_cast<std::int64_t>(values.size())}, values); }
const OnnxTensorRef kTable = integer_tensor({2, 3}, {1, 2, 3, 4, 5, 6}), kEmpty = integer_tensor({0}, {});

// y = op(x, operands ..) of x [2, 3].
std::string error_of(const std::string& op, const std::vector<Integers>& operands, const A& attributes = {},
                     const Dims& x = {2, 3}) {
  OnnxFile file;
  file.input("x", x);
  std::vector<std::string> inputs = {"x"};
  for (const Integers& values : operands) {
    inputs.push_back("c" + std::to_string(inputs.size()));
    file.integers(inputs.back(), {static_cast<std::int64_t>(values.size())}, values);
  }
  return import_error(file.node(op, inputs, {"y"}, attributes).output("y"));
}

}  // namespace

TEST_CASE("constants of other shapes than an operator takes are refused when they are folded") {
  CHECK_THAT(fold_error("Concat", {kTable, integer_tensor({2, 2}, {1, 2, 3, 4})}, {{"axis", std::int64_t{0}}}),
             Contains("found shapes [2, 3] and [2, 2], expected equal sizes but for axis 0"));
  for (const Integers& perm : {Integers{0}, Integers{0, 0}, Integers{0, 7}, Integers{-1, 0}, Integers{0, 1, 2}})
    CHECK_THAT(fold_error("Transpose", {kTable}, {{"perm", perm}}),
               Contains("expected the 2 dimensions in another order"));
  CHECK_THAT(fold_error("Range", {kEmpty, row({3}), row({1})}), Contains("operand 0 is empty"));
  CHECK_THAT(fold_error("Trilu", {kTable, kEmpty}), Contains("operand 1 is empty"));
  CHECK_THAT(fold_error("Gather", {kTable, row({2})}), Contains("found index 2, expected below 2"));
}

TEST_CASE("nothing is left of an empty dimension, in either direction") {
  for (std::int64_t step : {std::int64_t{1}, std::int64_t{-1}, INT64_MIN}) {
    SliceRange r = slice_range(-1, INT64_MIN, step, 0);
    CHECK(r.count == 0);
    CHECK(fold_error("Slice", {kEmpty, row({-1}), row({INT64_MIN}), row({0}), row({step})}).empty());
  }
  CHECK(slice_range(2, INT64_MIN, INT64_MIN, 3).count == 1);  // element 2, and none so far before it
}

TEST_CASE("constants that a file computes have a bounded size, alone and together") {
  CHECK_THAT(fold_error("ConstantOfShape", {row({std::int64_t{1} << 40})}),
             Contains("expected at most 16777216 elements"));
  CHECK_THAT(fold_error("ConstantOfShape", {row({std::int64_t{1} << 40, std::int64_t{1} << 40})}),
             Contains("expected at most 16777216 elements"));
  CHECK_THAT(fold_error("Expand", {kTable, row({1'000'000'000, 2, 3})}), Contains("expected at most"));
  CHECK_THAT(fold_error("Range", {integer_tensor({}, {0}), integer_tensor({}, {INT64_MAX}), integer_tensor({}, {1})}),
             Contains("found a range of"));
  OnnxFile file;
  file.input("x", Dims{1}).integers("n", {1}, {std::int64_t{1} << 24});
  for (int i = 0; i < 5; ++i) file.node("ConstantOfShape", {"n"}, {"c" + std::to_string(i)});
  CHECK_THAT(import_error(file.node("Add", {"x", "c0"}, {"y"}).output("y")),
             Contains("more than 67108864 elements in all"));
}

TEST_CASE("a bias that is left out is not made for a scale of any size") {
  const std::int64_t wide = std::int64_t{1} << 34;
  CHECK_THAT(import_error(OnnxFile()
                              .input("x", Dims{2, wide})
                              .input("scale", Dims{wide})
                              .node("LayerNormalization", {"x", "scale"}, {"y"})
                              .output("y")),
             Contains("needs a constant of shape [17179869184], expected at most 16777216 elements"));
}

TEST_CASE("nodes that no operator is are refused") {
  CHECK_THAT(import_error(OnnxFile().input("x", Dims{2}).node("Split", {"x"}, {"y"}).output("x")),
             Contains("no error"));
  for (const Dims& sizes : {Dims{INT64_MAX, 2}, Dims{std::int64_t{1} << 40, std::int64_t{1} << 40}})
    CHECK_THAT(import_error(OnnxFile().input("x", sizes).node("Relu", {"x"}, {"y"}).output("y")),
               Contains("too many elements") || Contains("at most 2^53"));
  CHECK_THAT(error_of("Tile", {{INT64_MAX, INT64_MAX}}), Contains("repeats of"));
  CHECK_THAT(error_of("Pad", {{INT64_MIN, 0, 0, 0}}), Contains("found a pad of"));
  CHECK_THAT(error_of("MaxPool", {}, {{"kernel_shape", Integers{INT64_MAX, 2}}}, {1, 1, 4, 4}),
             Contains("found 9223372036854775807 in a window"));
}
