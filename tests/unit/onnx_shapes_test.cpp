// Shapes: what is computed from constants, and the operators that move elements.
#include <catch2/catch.hpp>

#include "core/models/onnx/fold.h"
#include "tests/support/onnx_file.h"
#include "tests/support/rewrite_check.h"

using namespace unity;
using namespace unity::test;

namespace {

using A = std::map<std::string, OnnxAttribute>;
using V = std::vector<double>;

OnnxTensorRef reals(Dims dims, std::vector<float> values) {
  return std::make_shared<const OnnxTensor>(OnnxTensor{std::move(dims), false, std::move(values), {}});
}

OnnxTensorRef folded(const std::string& op, const std::vector<OnnxTensorRef>& inputs, const A& attributes = {}) {
  OnnxNode node{"", op, "", {}, {"y"}, attributes};
  auto results = fold(node, inputs, 17);
  REQUIRE(results);
  return results->at(0);
}

Dims whole(const std::string& op, const std::vector<OnnxTensorRef>& inputs, const A& attributes = {}) {
  return folded(op, inputs, attributes)->integers;
}

const V kSix = {1, 2, 3, 4, 5, 6};

Dims result_dims(const OnnxFile& file) {
  Pcg pcg = import_file(file).model.pcg;
  return pcg.shape(pcg.outputs()[0]).shape().dims;
}

}  // namespace

TEST_CASE("constants are evaluated as numpy evaluates them") {
  OnnxTensorRef row = integer_tensor({3}, {5, 6, 7}), two = integer_tensor({}, {2}),
                pair = integer_tensor({2}, {2, -1});
  CHECK(whole("Gather", {row, pair}) == Dims{7, 7});
  CHECK(whole("Concat", {row, pair}, {{"axis", std::int64_t{0}}}) == Dims{5, 6, 7, 2, -1});
  CHECK(folded("Unsqueeze", {two, integer_tensor({1}, {0})})->dims == Dims{1});
  CHECK(folded("Squeeze", {integer_tensor({1, 3}, {1, 2, 3})})->dims == Dims{3});
  CHECK(whole("Slice", {row, integer_tensor({1}, {-2}), integer_tensor({1}, {INT64_MAX})}) == Dims{6, 7});
  CHECK(whole("Slice", {row, integer_tensor({1}, {-1}), integer_tensor({1}, {INT64_MIN}), integer_tensor({1}, {0}),
                        integer_tensor({1}, {-1})}) == Dims{7, 6, 5});
  CHECK(whole("Range", {integer_tensor({}, {1}), integer_tensor({}, {6}), two}) == Dims{1, 3, 5});
  CHECK(whole("Expand", {two, integer_tensor({2}, {1, 3})}) == Dims{2, 2, 2});
  CHECK(whole("ConstantOfShape", {integer_tensor({1}, {2})}, {{"value", integer_tensor({1}, {9})}}) == Dims{9, 9});
  CHECK(folded("ConstantOfShape", {integer_tensor({1}, {2})})->reals == std::vector<float>{0, 0});
  CHECK(whole("Cast", {reals({2}, {1.9f, -1.9f})}, {{"to", std::int64_t{7}}}) == Dims{1, -1});
  CHECK(whole("Cast", {reals({2}, {0, 0.5f})}, {{"to", std::int64_t{9}}}) == Dims{0, 1});
  CHECK(whole("Mul", {row, two}) == Dims{10, 12, 14});
  CHECK(whole("Div", {integer_tensor({2}, {7, -7}), two}) == Dims{3, -3});
  CHECK(folded("Div", {reals({}, {7}), reals({}, {2})})->reals == std::vector<float>{3.5f});
  CHECK(whole("Mod", {integer_tensor({1}, {-7}), two}) == Dims{1});
  CHECK(whole("Mod", {integer_tensor({1}, {-7}), two}, {{"fmod", std::int64_t{1}}}) == Dims{-1});
  CHECK(whole("Max", {row}) == Dims{5, 6, 7});
  CHECK(whole("Min", {row, two, two}) == Dims{2, 2, 2});
  CHECK_THROWS_WITH(folded("Add", {row}), "operand 1 is missing");
  CHECK(whole("Equal", {row, integer_tensor({}, {6})}) == Dims{0, 1, 0});
  CHECK(whole("Where", {integer_tensor({3}, {1, 0, 1}), row, two}) == Dims{5, 2, 7});
  CHECK(whole("Transpose", {integer_tensor({2, 3}, {1, 2, 3, 4, 5, 6})}) == Dims{1, 4, 2, 5, 3, 6});
  CHECK(whole("Trilu", {integer_tensor({2, 2}, {1, 2, 3, 4})}, {{"upper", std::int64_t{0}}}) == Dims{1, 0, 3, 4});
  CHECK(whole("ReduceProd", {row}, {{"keepdims", std::int64_t{0}}}) == Dims{210});
  CHECK_THROWS_AS(folded("Gather", {row, integer_tensor({}, {3})}), InputError);
  CHECK_THROWS_AS(folded("Div", {row, integer_tensor({}, {0})}), InputError);
  CHECK_THROWS_AS(folded("ConstantOfShape", {integer_tensor({2}, {INT64_MAX, INT64_MAX})}), InputError);
}

TEST_CASE("a reshape to a computed shape gets a fixed one") {
  // As exporters write x.view(x.size(0), -1): Shape, Gather, Unsqueeze, Concat, Reshape.
  OnnxFile file = OnnxFile()
                      .input("x", Dims{2, 3, 4})
                      .integers("zero", {}, {0})
                      .integers("axes", {1}, {0})
                      .integers("rest", {1}, {-1})
                      .node("Shape", {"x"}, {"shape"})
                      .node("Gather", {"shape", "zero"}, {"size"})
                      .node("Unsqueeze", {"size", "axes"}, {"first"})
                      .node("Concat", {"first", "rest"}, {"wanted"}, {{"axis", std::int64_t{0}}})
                      .node("Reshape", {"x", "wanted"}, {"y"})
                      .output("y");
  CHECK(result_dims(file) == Dims{2, 12});
  CHECK(import_file(file).model.pcg.size() == 2);
}

TEST_CASE("a shape that depends on data is refused") {
  OnnxFile file =
      OnnxFile().input("x", Dims{2, 3}).input("s", Dims{2}, true).node("Reshape", {"x", "s"}, {"y"}).output("y");
  CHECK(import_error(file) == "found 1 operator that Unity lacks: Reshape: a shape that is computed from data (1)");
}

TEST_CASE("reshaping, flattening, squeezing") {
  auto dims = [](const std::string& op, const Dims& x, const Dims& operand, const A& attributes = {}) {
    OnnxFile file = OnnxFile().input("x", x);
    std::vector<std::string> inputs = {"x"};
    if (!operand.empty()) {
      file.integers("s", {static_cast<std::int64_t>(operand.size())}, operand);
      inputs.push_back("s");
    }
    return result_dims(file.node(op, inputs, {"y"}, attributes).output("y"));
  };
  CHECK(dims("Reshape", {2, 3, 4}, {0, -1}) == Dims{2, 12});
  CHECK(dims("Flatten", {2, 3, 4}, {}, {{"axis", std::int64_t{2}}}) == Dims{6, 4});
  CHECK(dims("Flatten", {2, 3, 4}, {}, {{"axis", std::int64_t{0}}}) == Dims{1, 24});
  CHECK(dims("Squeeze", {1, 3, 1}, {}) == Dims{3});
  CHECK(dims("Squeeze", {1, 3, 1}, {-1}) == Dims{1, 3});
  CHECK(dims("Unsqueeze", {3}, {0, 2}) == Dims{1, 3, 1});
  CHECK(dims("Expand", {3, 1}, {2, 1, 4}) == Dims{2, 3, 4});
  CHECK(dims("Transpose", {2, 3, 4}, {}) == Dims{4, 3, 2});
}

TEST_CASE("parts of tensors") {
  auto run = [](const std::string& op, const Dims& x, const std::vector<Dims>& operands, const A& attributes = {}) {
    OnnxFile file = OnnxFile().input("x", x);
    std::vector<std::string> inputs = {"x"};
    for (const Dims& o : operands) {
      inputs.push_back(fmt::format("o{}", inputs.size()));
      file.integers(inputs.back(), {static_cast<std::int64_t>(o.size())}, o);
    }
    return result_of(file.node(op, inputs, {"y"}, attributes).output("y"), {{"x", kSix}});
  };
  CHECK(run("Slice", {2, 3}, {{1}, {3}, {1}}) == V{2, 3, 5, 6});
  CHECK(run("Slice", {2, 3}, {{0}, {3}, {1}, {2}}) == V{1, 3, 4, 6});
  CHECK(run("Slice", {2, 3}, {{-1}, {-4}, {1}, {-1}}) == V{3, 2, 1, 6, 5, 4});
  CHECK(run("Gather", {2, 3}, {{2, 0}}, {{"axis", std::int64_t{1}}}) == V{3, 1, 6, 4});
  CHECK(run("Gather", {2, 3}, {{-1}}) == V{4, 5, 6});
  CHECK(run("Pad", {1, 6}, {{0, 1, 0, -4}}) == V{0, 1, 2});
  CHECK(run("Tile", {1, 6}, {{2, 1}}) == V{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6});
  CHECK(run("Tile", {3, 2}, {{1, 2}}) == V{1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6});
  CHECK(run("Expand", {6, 1}, {{1, 2}}) == V{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6});
}

TEST_CASE("splits by sizes and in equal parts, and joining again") {
  for (bool sizes : {true, false}) {
    OnnxFile file = OnnxFile().input("x", Dims{1, 6}).integers("sizes", {2}, {3, 3});
    file.node("Split", sizes ? std::vector<std::string>{"x", "sizes"} : std::vector<std::string>{"x"}, {"a", "b"},
              {{"axis", std::int64_t{1}}});
    file.node("Concat", {"b", "a"}, {"y"}, {{"axis", std::int64_t{-1}}}).output("y");
    CHECK(result_of(file, {{"x", kSix}}) == V{4, 5, 6, 1, 2, 3});
  }
}

TEST_CASE("rows of a table by index are an embedding; constant positions a slice") {
  OnnxFile file = OnnxFile()
                      .input("ids", Dims{1, 2}, true)
                      .weight("table", {3, 2}, {1, 2, 3, 4, 5, 6})
                      .weight("positions", {4, 2}, {10, 20, 30, 40, 50, 60, 70, 80})
                      .integers("where", {1, 2}, {1, 2})
                      .node("Gather", {"table", "ids"}, {"words"})
                      .node("Gather", {"positions", "where"}, {"places"})
                      .node("Add", {"words", "places"}, {"y"})
                      .output("y");
  CHECK(result_of(file, {{"ids", {2, 0}}}) == V{35, 46, 51, 62});
  Pcg pcg = import_file(file).model.pcg;
  CHECK(count_nodes(pcg, "embedding") == 1);
  CHECK(count_nodes(pcg, "slice") == 1);
}

TEST_CASE("one element of each row by a computed index is a pick") {
  OnnxFile file = OnnxFile()
                      .input("x", Dims{2, 3})
                      .input("i", Dims{2, 1}, true)
                      .node("GatherElements", {"x", "i"}, {"y"}, {{"axis", std::int64_t{-1}}})
                      .output("y");
  CHECK(result_of(file, {{"x", kSix}, {"i", {2, 0}}}) == V{3, 4});
  CHECK(count_nodes(import_file(file).model.pcg, "pick") == 1);
}

TEST_CASE("along other dimensions computed indices are a gather") {
  OnnxFile file = OnnxFile()
                      .input("x", Dims{2, 3})
                      .input("i", Dims{2}, true)
                      .node("Gather", {"x", "i"}, {"y"}, {{"axis", std::int64_t{1}}})
                      .output("y");
  CHECK(result_of(file, {{"x", kSix}, {"i", {2, 0}}}) == V{3, 1, 6, 4});
}

TEST_CASE("a name has one value") {
  OnnxFile relu = OnnxFile().input("x", Dims{2}).weight("w", {2}, {1, 2}).node("Relu", {"x"}, {"y"});
  CHECK_THAT(import_error(relu.node("Neg", {"x"}, {"y"}).output("y")), Catch::EndsWith("value 'y' is defined twice"));
  OnnxFile over = OnnxFile().input("x", Dims{2}).weight("w", {2}, {1, 2}).node("Relu", {"x"}, {"w"}).output("w");
  CHECK_THAT(import_error(over), Catch::EndsWith("value 'w' is defined twice"));
  OnnxFile inputs = OnnxFile().input("x", Dims{2}).input("x", Dims{2}).node("Relu", {"x"}, {"y"}).output("y");
  CHECK(import_error(inputs) == "input 'x': value 'x' is defined twice");
}

TEST_CASE("a permutation of other dimensions than the operand has is refused") {
  OnnxFile file = OnnxFile().input("x", Dims{3, 2}).node("Transpose", {"x"}, {"y"}, {{"perm", Dims{0}}}).output("y");
  CHECK_THAT(import_error(file), Catch::Contains("perm is [0], expected a permutation of the 2 dimensions"));
}
