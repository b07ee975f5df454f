// Convolutions, matrix products and poolings, against numbers computed by hand.
#include <catch2/catch.hpp>

#include "tests/support/onnx_file.h"
#include "tests/support/rewrite_check.h"

using namespace unity;
using namespace unity::test;

namespace {

using A = std::map<std::string, OnnxAttribute>;

const std::vector<double> kNine = {1, 2, 3, 4, 5, 6, 7, 8, 9};

OnnxFile window(const std::string& op, const A& attributes, const Dims& x) {
  return OnnxFile().input("x", x).node(op, {"x"}, {"y"}, attributes).output("y");
}

}  // namespace

TEST_CASE("a convolution: sums of 2 x 2 windows, with a bias for each channel") {
  auto conv = [](const A& attributes) {
    return OnnxFile()
        .input("x", Dims{1, 1, 3, 3})
        .weight("w", {2, 1, 2, 2}, {1, 1, 1, 1, 0, 0, 0, 1})
        .weight("b", {2}, {100, 0})
        .node("Conv", {"x", "w", "b"}, {"y"}, attributes)
        .output("y");
  };
  CHECK(result_of(conv({}), {{"x", kNine}}) == std::vector<double>{112, 116, 124, 128, 5, 6, 8, 9});
  // Pads are given as begins, then ends: a row above only.
  CHECK(result_of(conv({{"pads", Dims{1, 0, 0, 0}}}), {{"x", kNine}}) ==
        std::vector<double>{103, 105, 112, 116, 124, 128, 2, 3, 5, 6, 8, 9});
  CHECK(result_of(conv({{"dilations", Dims{2, 2}}}), {{"x", kNine}}) == std::vector<double>{120, 9});
  CHECK(result_of(conv({{"strides", Dims{2, 1}}}), {{"x", kNine}}) == std::vector<double>{112, 116, 5, 6});
  // SAME with an even kernel puts the odd one at the end, or at the start.
  CHECK(result_of(conv({{"auto_pad", std::string("SAME_UPPER")}, {"strides", Dims{3, 3}}}), {{"x", kNine}}) ==
        std::vector<double>{112, 5});
  CHECK(result_of(conv({{"auto_pad", std::string("SAME_LOWER")}}), {{"x", kNine}}) ==
        std::vector<double>{101, 103, 105, 105, 112, 116, 111, 124, 128, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("groups, one spatial dimension, and weights keep their names") {
  OnnxFile file = OnnxFile()
                      .input("x", Dims{1, 2, 3})
                      .weight("conv.weight", {2, 1, 2}, {1, 1, 1, -1})
                      .weight("conv.bias", {2}, {0, 10})
                      .node("Conv", {"x", "conv.weight", "conv.bias"}, {"y"}, {{"group", std::int64_t{2}}})
                      .output("y");
  // Sums of neighbours in channel 0, differences (plus 10) in channel 1.
  CHECK(result_of(file, {{"x", {1, 2, 3, 4, 6, 9}}}) == std::vector<double>{3, 5, 8, 7});
  OnnxImport import = import_file(file);
  CHECK(import.model.values.contains("conv.weight"));
  CHECK(import.model.values.contains("conv.bias"));
  CHECK(count_nodes(import.model.pcg, "weight") == 2);
}

TEST_CASE("Gemm: alpha x^T w^T + beta c") {
  OnnxFile file = OnnxFile()
                      .input("x", Dims{2, 2})
                      .weight("w", {3, 2}, {1, 0, 0, 1, 1, 1})
                      .weight("c", {3}, {1, 2, 3})
                      .node("Gemm", {"x", "w", "c"}, {"y"},
                            {{"alpha", 2.0}, {"beta", 0.5}, {"transA", std::int64_t{1}}, {"transB", std::int64_t{1}}})
                      .output("y");
  // x^T = [[1, 3], [2, 4]]; its columns and their sum, doubled, plus half of c.
  CHECK(result_of(file, {{"x", {1, 2, 3, 4}}}) == std::vector<double>{2.5, 7, 9.5, 4.5, 9, 13.5});
}

TEST_CASE("products of any ranks, as numpy has them") {
  auto product = [](const Dims& a, const Dims& b) {
    OnnxFile file = OnnxFile().input("a", a).input("b", b).node("MatMul", {"a", "b"}, {"y"}).output("y");
    Inputs inputs;
    for (auto [name, dims] : {std::pair{"a", a}, {"b", b}})
      for (std::int64_t i = 0; i < element_count(dims); ++i) inputs[name].push_back(static_cast<double>(i + 1));
    return result_of(file, inputs);
  };
  CHECK(product({2}, {2}) == std::vector<double>{5});
  CHECK(product({2}, {2, 2}) == std::vector<double>{7, 10});
  CHECK(product({2, 2}, {2}) == std::vector<double>{5, 11});
  CHECK(product({2, 1, 2}, {2, 1}) == std::vector<double>{5, 11});
  CHECK(product({2, 1, 2}, {2, 2, 1}) == std::vector<double>{5, 25});
  CHECK(product({1, 2}, {2, 2, 1}) == std::vector<double>{5, 11});
  CHECK(product({2, 1, 1, 2}, {2, 2, 1}) == std::vector<double>{5, 11, 11, 25});
}

TEST_CASE("largest values and means of windows") {
  const A kernel = {{"kernel_shape", Dims{2, 2}}};
  auto with = [&](A more) { return more.insert(kernel.begin(), kernel.end()), more; };
  CHECK(result_of(window("MaxPool", kernel, {1, 1, 3, 3}), {{"x", kNine}}) == std::vector<double>{5, 6, 8, 9});
  CHECK(result_of(window("AveragePool", kernel, {1, 1, 3, 3}), {{"x", kNine}}) == std::vector<double>{3, 4, 6, 7});
  // Rounding up, the last windows reach beyond the input, where nothing counts.
  A up = with({{"strides", Dims{2, 2}}, {"ceil_mode", std::int64_t{1}}});
  CHECK(result_of(window("MaxPool", up, {1, 1, 3, 3}), {{"x", kNine}}) == std::vector<double>{5, 6, 8, 9});
  CHECK(result_of(window("AveragePool", up, {1, 1, 3, 3}), {{"x", kNine}}) == std::vector<double>{3, 4.5, 7.5, 9});
  up["count_include_pad"] = std::int64_t{1};
  CHECK(result_of(window("AveragePool", up, {1, 1, 3, 3}), {{"x", kNine}}) == std::vector<double>{3, 4.5, 7.5, 9});
  up["pads"] = Dims{1, 1, 0, 0};  // four whole windows: rounding up changes nothing, and padding counts
  CHECK(result_of(window("AveragePool", up, {1, 1, 3, 3}), {{"x", kNine}}) == std::vector<double>{.25, 1.25, 2.75, 7});
  // A window that would start in the padding at the end is left out: 1 element, kernel 1, stride 2.
  A one = {{"kernel_shape", Dims{1, 1}},
           {"strides", Dims{2, 2}},
           {"ceil_mode", std::int64_t{1}},
           {"pads", Dims{0, 0, 1, 1}}};
  CHECK(result_of(window("MaxPool", one, {1, 1, 1, 1}), {{"x", {4}}}) == std::vector<double>{4});
  CHECK(result_of(window("GlobalAveragePool", {}, {1, 1, 3, 3}), {{"x", kNine}}) == std::vector<double>{5});
  CHECK(result_of(window("GlobalMaxPool", {}, {1, 3, 3}), {{"x", kNine}}) == std::vector<double>{3, 6, 9});
  CHECK(result_of(window("MaxPool", {{"kernel_shape", Dims{2}}}, {1, 1, 3}), {{"x", {3, 1, 2}}}) ==
        std::vector<double>{3, 2});
}

TEST_CASE("what pooling and convolution cannot do is refused") {
  CHECK(import_error(window("MaxPool", {{"kernel_shape", Dims{1, 1, 1}}}, {1, 1, 2, 2, 2})) ==
        "found 1 operator that Unity lacks: MaxPool: 3 spatial dimensions (1)");
  CHECK(import_error(window("AveragePool",
                            {{"kernel_shape", Dims{2, 2}},
                             {"strides", Dims{2, 2}},
                             {"pads", Dims{1, 1, 0, 0}},
                             {"ceil_mode", std::int64_t{1}},
                             {"count_include_pad", std::int64_t{1}}},
                            {1, 1, 4, 4})) ==
        "found 1 operator that Unity lacks: AveragePool: ceil_mode with padding that counts (1)");
}

TEST_CASE("a padding that ONNX has no name for is refused") {
  CHECK_THAT(
      import_error(window("MaxPool", {{"kernel_shape", Dims{2, 2}}, {"auto_pad", std::string("SAME")}}, {1, 1, 3, 3})),
      Catch::EndsWith("found auto_pad 'SAME', expected NOTSET, VALID, SAME_UPPER or SAME_LOWER"));
}
