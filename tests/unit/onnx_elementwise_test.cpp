// Element-wise operators, reductions and normalizations, against numbers computed by hand.
#include <cmath>

#include <catch2/catch.hpp>

#include "tests/support/onnx_file.h"
#include "tests/support/rewrite_check.h"

using namespace unity;
using namespace unity::test;

namespace {

using A = std::map<std::string, OnnxAttribute>;
using V = std::vector<double>;

V unary(const std::string& op, const V& x, const A& attributes = {}, std::int64_t opset = 17) {
  auto n = static_cast<std::int64_t>(x.size());
  OnnxFile file = OnnxFile(opset).input("x", Dims{n}).node(op, {"x"}, {"y"}, attributes).output("y");
  return result_of(file, {{"x", x}});
}

// x op constant, or constant op x.
V with_constant(const std::string& op, const V& x, float c, bool constant_first = false) {
  OnnxFile file = OnnxFile().input("x", Dims{static_cast<std::int64_t>(x.size())}).weight("c", {}, {c});
  file.node(op, constant_first ? std::vector<std::string>{"c", "x"} : std::vector<std::string>{"x", "c"}, {"y"});
  return result_of(file.output("y"), {{"x", x}});
}

}  // namespace

TEST_CASE("functions of one operand") {
  check_close(unary("Relu", {-1, 2}), {0, 2});
  check_close(unary("Neg", {-1, 2}), {1, -2});
  check_close(unary("Abs", {-1, 2}), {1, 2});
  check_close(unary("Sqrt", {4, 2}), {2, std::sqrt(2.0)});
  check_close(unary("Exp", {0, 1}), {1, std::exp(1.0)});
  check_close(unary("Log", {1, 2}), {0, std::log(2.0)});
  check_close(unary("Tanh", {0, 1}), {0, std::tanh(1.0)});
  check_close(unary("Sigmoid", {0, 1}), {0.5, 1 / (1 + std::exp(-1.0))});
  check_close(unary("Reciprocal", {2, -4}), {0.5, -0.25});
  check_close(unary("Erf", {0, 1}), {0, std::erf(1.0)});
  check_close(unary("Gelu", {1, -2}, {}, 20), {0.8413447460685429, -0.0455002638963584});
  check_close(unary("Gelu", {1}, {{"approximate", std::string("tanh")}}, 20), {0.8411919906082768});
  check_close(unary("LeakyRelu", {-1, 2}, {{"alpha", 0.25}}), {-0.25, 2});
  check_close(unary("Clip", {-1, 2, 9}, {{"min", 0.0}, {"max", 6.0}}, 9), {0, 2, 6});
}

TEST_CASE("operators of two operands, broadcast as in numpy") {
  auto binary = [](const std::string& op) {
    OnnxFile file = OnnxFile().input("x", Dims{2, 2}).input("y", Dims{2}).node(op, {"x", "y"}, {"z"}).output("z");
    return result_of(file, {{"x", {1, 2, 3, 4}}, {"y", {2, 3}}});
  };
  check_close(binary("Add"), {3, 5, 5, 7});
  check_close(binary("Sub"), {-1, -1, 1, 1});
  check_close(binary("Mul"), {2, 6, 6, 12});
  check_close(binary("Div"), {0.5, 2.0 / 3, 1.5, 4.0 / 3});
  check_close(binary("Min"), {1, 2, 2, 3});
  check_close(binary("Max"), {2, 3, 3, 4});
  check_close(binary("Sum"), {3, 5, 5, 7});
}

TEST_CASE("constants of one element become attributes") {
  check_close(with_constant("Add", {1, 2}, 3), {4, 5});
  check_close(with_constant("Sub", {1, 2}, 3), {-2, -1});
  check_close(with_constant("Sub", {1, 2}, 3, true), {2, 1});
  check_close(with_constant("Mul", {1, 2}, 3, true), {3, 6});
  check_close(with_constant("Div", {1, 2}, 4), {0.25, 0.5});
  check_close(with_constant("Div", {1, 2}, 4, true), {4, 2});
  check_close(with_constant("Pow", {3, 2}, 2), {9, 4});
  OnnxFile file = OnnxFile().input("x", Dims{2}).weight("c", {}, {1e-5f}).node("Add", {"x", "c"}, {"y"}).output("y");
  Pcg pcg = import_file(file).model.pcg;
  REQUIRE(pcg.size() == 2);
  CHECK(real_attribute(pcg[pcg.outputs()[0].node].attributes, 0) ==
        1e-5);  // as it was written, not as a float holds it
}

TEST_CASE("bounds far away change nothing between them") {
  check_close(unary("Clip", {-3, 0.5, 2}, {{"min", -1e30}, {"max", 1e30}}, 9), {-3, 0.5, 2});
  check_close(unary("Clip", {-3, 0.5, 2}, {{"min", -1.0}, {"max", 1.0}}, 9), {-1, 0.5, 1});
  check_close(unary("Clip", {-3, 0.5, 2}, {{"min", 3.0}, {"max", 1.0}}, 9), {1, 1, 1});  // max wins
}

TEST_CASE("an exponent of more dimensions than the base gives them to the result") {
  OnnxFile file = OnnxFile().input("x", Dims{2}).integers("c", {1, 1}, {2});
  Pcg pcg = import_file(file.node("Pow", {"x", "c"}, {"y"}).output("y")).model.pcg;
  CHECK(pcg.shape(pcg.outputs()[0]).shape().dims == Dims{1, 2});
}

TEST_CASE("what is trained and what is not: initializers are weights, other constants states") {
  auto values = std::make_shared<const OnnxTensor>(OnnxTensor{{2}, false, {5, 7}, {}});
  OnnxFile file = OnnxFile()
                      .input("x", Dims{1, 2})
                      .weight("w", {2}, {2, 3})
                      .node("Constant", {}, {"c"}, {{"value", values}})
                      .node("Mul", {"x", "w"}, {"y"})
                      .node("Add", {"y", "c"}, {"z"})
                      .output("z");
  CHECK(result_of(file, {{"x", {1, 1}}}) == V{7, 10});
  Pcg pcg = import_file(file).model.pcg;
  CHECK(count_nodes(pcg, "weight") == 1);
  CHECK(count_nodes(pcg, "state") == 1);
}

TEST_CASE("choices by computed and by constant conditions") {
  OnnxFile file = OnnxFile()
                      .input("c", Dims{2}, true)
                      .input("x", Dims{2})
                      .weight("low", {}, {-1})
                      .node("Cast", {"c"}, {"b"}, {{"to", std::int64_t{9}}})
                      .node("Where", {"b", "x", "low"}, {"y"})
                      .output("y");
  CHECK(result_of(file, {{"c", {0, 5}}, {"x", {3, 4}}}) == V{-1, 4});
  OnnxFile constant = OnnxFile()
                          .input("x", Dims{2})
                          .integers("c", {2}, {1, 0})
                          .weight("low", {}, {-1})
                          .node("Where", {"c", "x", "low"}, {"y"})
                          .output("y");
  CHECK(result_of(constant, {{"x", {3, 4}}}) == V{3, -1});
}

TEST_CASE("a mask of integers becomes large negative numbers, as exporters write it") {
  OnnxFile file = OnnxFile()
                      .input("mask", Dims{1, 2}, true)
                      .weight("one", {}, {1})
                      .weight("low", {}, {-10000})
                      .node("Cast", {"mask"}, {"m"}, {{"to", std::int64_t{1}}})
                      .node("Sub", {"one", "m"}, {"inverse"})
                      .node("Mul", {"inverse", "low"}, {"y"})
                      .output("y");
  CHECK(result_of(file, {{"mask", {1, 0}}}) == V{0, -10000});
}

TEST_CASE("a true number cast to boolean and back is 1") {
  OnnxFile file = OnnxFile()
                      .input("c", Dims{2}, true)
                      .node("Cast", {"c"}, {"b"}, {{"to", std::int64_t{9}}})
                      .node("Cast", {"b"}, {"y"}, {{"to", std::int64_t{1}}})
                      .output("y");
  CHECK(result_of(file, {{"c", {0, 5}}}) == V{0, 1});
  OnnxFile by_integer = OnnxFile()
                            .input("c", Dims{2}, true)
                            .node("Cast", {"c"}, {"b"}, {{"to", std::int64_t{9}}})
                            .node("Cast", {"b"}, {"i"}, {{"to", std::int64_t{7}}})
                            .node("Cast", {"i"}, {"y"}, {{"to", std::int64_t{1}}})
                            .output("y");
  CHECK(result_of(by_integer, {{"c", {0, 5}}}) == V{0, 1});
  OnnxFile moved = OnnxFile()
                       .input("c", Dims{1, 2}, true)
                       .node("Cast", {"c"}, {"b"}, {{"to", std::int64_t{9}}})
                       .node("Transpose", {"b"}, {"t"})
                       .node("Cast", {"t"}, {"y"}, {{"to", std::int64_t{1}}})
                       .output("y");
  CHECK(result_of(moved, {{"c", {-5, 0}}}) == V{1, 0});
}

TEST_CASE("reductions, by attribute and by operand, with and without their dimensions") {
  auto reduce = [](const std::string& op, const A& attributes) {
    OnnxFile file = OnnxFile(12).input("x", Dims{2, 2}).node(op, {"x"}, {"y"}, attributes).output("y");
    return result_of(file, {{"x", {1, 2, 3, 8}}});
  };
  A rows = {{"axes", Dims{-1}}, {"keepdims", std::int64_t{0}}};
  CHECK(reduce("ReduceSum", rows) == V{3, 11});
  CHECK(reduce("ReduceMean", rows) == V{1.5, 5.5});
  CHECK(reduce("ReduceMax", {{"axes", Dims{0}}}) == V{3, 8});
  CHECK(reduce("ReduceMin", {{"axes", Dims{0}}}) == V{1, 2});
  CHECK(reduce("ReduceSum", {}) == V{14});
  CHECK(reduce("ArgMax", {{"axis", std::int64_t{1}}}) == V{1, 1});
  OnnxFile operand =
      OnnxFile().input("x", Dims{2, 2}).integers("axes", {1}, {0}).node("ReduceSum", {"x", "axes"}, {"y"}).output("y");
  Pcg pcg = import_file(operand).model.pcg;
  CHECK(pcg.shape(pcg.outputs()[0]).shape().dims == Dims{1, 2});
}

TEST_CASE("softmax over any dimension; before opset 13 over all that follow") {
  auto softmax = [](const std::string& op, std::int64_t opset, std::int64_t axis) {
    OnnxFile file = OnnxFile(opset).input("x", Dims{1, 2, 2}).node(op, {"x"}, {"y"}, {{"axis", axis}}).output("y");
    return result_of(file, {{"x", {0, std::log(3.0), 0, 0}}});
  };
  check_close(softmax("Softmax", 13, -1), {0.25, 0.75, 0.5, 0.5});
  check_close(softmax("Softmax", 13, 1), {0.5, 0.75, 0.5, 0.25});
  check_close(softmax("Softmax", 12, 1), {1.0 / 6, 0.5, 1.0 / 6, 1.0 / 6});
  check_close(softmax("LogSoftmax", 13, 2), {std::log(0.25), std::log(0.75), std::log(0.5), std::log(0.5)});
  check_close(softmax("LogSoftmax", 13, 1), {std::log(0.5), std::log(0.75), std::log(0.5), std::log(0.25)});
}

TEST_CASE("the logarithm of a softmax is a number where the softmax is too small for one") {
  check_close(unary("LogSoftmax", {0, 900}, {{"axis", std::int64_t{0}}}), {-900, 0});
}

TEST_CASE("layer normalization over one or more dimensions, with and without a bias") {
  // 1, 3 have mean 2 and deviation 1.
  OnnxFile file = OnnxFile()
                      .input("x", Dims{1, 2})
                      .weight("g", {2}, {2, 2})
                      .weight("b", {2}, {10, 20})
                      .node("LayerNormalization", {"x", "g", "b"}, {"y"}, {{"epsilon", 0.0}})
                      .output("y");
  check_close(result_of(file, {{"x", {1, 3}}}), {8, 22});
  OnnxFile wide = OnnxFile()
                      .input("x", Dims{1, 2, 1})
                      .weight("g", {2, 1}, {2, 2})
                      .node("LayerNormalization", {"x", "g"}, {"y"}, {{"epsilon", 0.0}, {"axis", std::int64_t{1}}})
                      .output("y");
  check_close(result_of(wide, {{"x", {1, 3}}}), {-2, 2});
}

TEST_CASE("batch normalization by stored statistics, which are not trained") {
  OnnxFile file = OnnxFile()
                      .input("x", Dims{1, 2})
                      .weight("g", {2}, {1, 2})
                      .weight("b", {2}, {0, 1})
                      .weight("mean", {2}, {1, 2})
                      .weight("variance", {2}, {4, 9})
                      .node("BatchNormalization", {"x", "g", "b", "mean", "variance"}, {"y"}, {{"epsilon", 0.0}})
                      .output("y");
  check_close(result_of(file, {{"x", {3, 5}}}), {1, 3});
  Pcg pcg = import_file(file).model.pcg;
  CHECK(count_nodes(pcg, "weight") == 2);
  CHECK(count_nodes(pcg, "state") == 2);
}

TEST_CASE("batch normalization in training takes the batch's statistics") {
  OnnxFile file =
      OnnxFile()
          .input("x", Dims{2, 1})
          .weight("g", {1}, {1})
          .weight("b", {1}, {0})
          .weight("mean", {1}, {0})
          .weight("variance", {1}, {1})
          .node("BatchNormalization", {"x", "g", "b", "mean", "variance"}, {"y", "new_mean", "new_variance"},
                {{"epsilon", 0.0}, {"training_mode", std::int64_t{1}}, {"momentum", 0.75}})
          .output("y")
          .output("new_mean")
          .output("new_variance");
  OnnxImport import = import_file(file);
  auto outputs = evaluate_import(import.model, {{"x", {1, 5}}});
  check_close(outputs.at(0), {-1, 1});  // mean 3, deviation 2
  check_close(outputs.at(1), {0.75});   // a quarter of 3
  check_close(outputs.at(2), {1.75});   // three quarters of 1, a quarter of 4
  CHECK(import.fixed.empty());
}

TEST_CASE("batch normalization whose statistics are left out by name is inference in old opsets, too") {
  OnnxFile file =
      OnnxFile(9)
          .input("x", Dims{2, 1})
          .weight("g", {1}, {1})
          .weight("b", {1}, {0})
          .weight("mean", {1}, {1})
          .weight("variance", {1}, {4})
          .node("BatchNormalization", {"x", "g", "b", "mean", "variance"}, {"y", "", "", "", ""}, {{"epsilon", 0.0}})
          .output("y");
  check_close(result_of(file, {{"x", {3, 5}}}), {1, 2});
}

TEST_CASE("group and instance normalization") {
  OnnxFile group =
      OnnxFile(18)
          .input("x", Dims{1, 4, 1})
          .weight("g", {2}, {1, 2})
          .weight("b", {2}, {0, 1})
          .node("GroupNormalization", {"x", "g", "b"}, {"y"}, {{"num_groups", std::int64_t{2}}, {"epsilon", 0.0}})
          .output("y");
  check_close(result_of(group, {{"x", {1, 3, 0, 8}}}), {-1, 1, -1, 3});
  OnnxFile instance = OnnxFile()
                          .input("x", Dims{1, 2, 2})
                          .weight("g", {2}, {1, 2})
                          .weight("b", {2}, {0, 1})
                          .node("InstanceNormalization", {"x", "g", "b"}, {"y"}, {{"epsilon", 0.0}})
                          .output("y");
  check_close(result_of(instance, {{"x", {1, 3, 0, 8}}}), {-1, 1, -1, 3});
}

TEST_CASE("dropout is nothing in inference and a mask in training") {
  auto dropout = [](std::int64_t training) {
    return OnnxFile()
        .input("x", Dims{2, 2})
        .weight("ratio", {}, {0.5})
        .integers("training", {}, {training})
        .node("Dropout", {"x", "ratio", "training"}, {"y"})
        .output("y");
  };
  CHECK(result_of(dropout(0), {{"x", {1, 2, 3, 4}}}) == V{1, 2, 3, 4});
  CHECK(count_nodes(import_file(dropout(1)).model.pcg, "dropout_mask") == 1);
}

TEST_CASE("arithmetic on integers that are computed from data is refused") {
  OnnxFile file = OnnxFile().input("x", Dims{2}, true).node("Add", {"x", "x"}, {"y"}).output("y");
  CHECK(import_error(file) ==
        "found 1 operator that Unity lacks: Add: arithmetic on integers that are computed from data (1)");
}
