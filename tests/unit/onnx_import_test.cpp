// From an ONNX file to a model file with initial values.
#include <cmath>
#include <filesystem>

#include <catch2/catch.hpp>

#include "core/base/safetensors.h"
#include "core/base/text.h"
#include "core/graph/text.h"
#include "core/models/models.h"
#include "core/models/onnx/context.h"
#include "tests/support/onnx_file.h"
#include "tests/support/rewrite_check.h"

using namespace unity;
using namespace unity::test;

namespace {

using A = std::map<std::string, OnnxAttribute>;

// Two dense layers; the batch is a name, or fixed.
OnnxFile perceptron(const std::string& batch) {
  return OnnxFile()
      .input("x", std::vector<std::string>{batch, "3"})
      .weight("fc1.weight", {4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
      .weight("fc1.bias", {4}, {1, 0, -1, 0})
      .weight("fc2.weight", {2, 4}, {1, -1, 1, -1, 0, 1, 0, -1})
      .weight("fc2.bias", {2}, {0.5f, 1})
      .node("Gemm", {"x", "fc1.weight", "fc1.bias"}, {"h"}, {{"transB", std::int64_t{1}}})
      .node("Relu", {"h"}, {"r"})
      .node("Gemm", {"r", "fc2.weight", "fc2.bias"}, {"logits"}, {{"transB", std::int64_t{1}}})
      .output("logits");
}

struct Written {
  std::string path = onnx_path("written.yaml"), values;
  explicit Written(const OnnxImport& import) { values = write_import(import, path); }
  ~Written() {
    std::filesystem::remove(path);
    if (!values.empty()) std::filesystem::remove(values);
  }
  Pcg build(std::int64_t batch) const { return build_model({path, {{"batch", batch}}}); }
};

}  // namespace

TEST_CASE("an imported model is written, reads back as the same graph, and takes any batch") {
  OnnxImport import = import_file(perceptron("n"), {{{"n", 5}}, "cross_entropy", "labels"});
  CHECK(import.fixed.empty());
  Written file(import);
  CHECK(canonical_hash(file.build(5)) == canonical_hash(import.model.pcg));
  Pcg other = file.build(7);
  CHECK(to_string(other.shape(other.outputs()[0])) == "f32[]");
  CHECK(to_string(other.shape(other.outputs()[1])) == "f32[7, 2]");
  ModelInfo info = model_info(file.path);
  CHECK(info.batch_per_gpu == 5);
  CHECK(info.loss == "cross_entropy");
  CHECK(info.weights_file == file.values);
}

TEST_CASE("the initial values are those of the file, under its names") {
  Written file(import_file(perceptron("5"), {{}, "cross_entropy", "labels"}));
  SafetensorsFile values(file.values);
  CHECK(values.tensors().size() == 4);
  CHECK(values.at("fc2.bias").dims == Dims{2});
  CHECK(values.floats(values.at("fc2.bias")) == std::vector<float>{0.5f, 1});
  CHECK(values.at("fc1.weight").dims == Dims{4, 3});
}

TEST_CASE("a batch that the file fixes in inputs and reshapes may still change") {
  OnnxFile file = OnnxFile()
                      .input("x", Dims{2, 2, 3})
                      .weight("w", {6, 2}, std::vector<float>(12, 1))
                      .integers("shape", {2}, {2, 6})
                      .node("Reshape", {"x", "shape"}, {"flat"})
                      .node("MatMul", {"flat", "w"}, {"y"})
                      .output("y");
  OnnxImport import = import_file(file, {{}, "mean_squared_error", "target"});
  CHECK(import.fixed.empty());
  Pcg five = Written(import).build(5);
  CHECK(to_string(five.shape(five.outputs()[1])) == "f32[5, 2]");
}

TEST_CASE("a batch that cannot change is said to be fixed") {
  OnnxFile file = OnnxFile()
                      .input("x", Dims{2, 3})
                      .integers("half", {2}, {1, 1})
                      .node("Split", {"x", "half"}, {"a", "b"}, {{"axis", std::int64_t{0}}})
                      .node("Concat", {"b", "a"}, {"y"}, {{"axis", std::int64_t{0}}})
                      .output("y");
  OnnxImport import = import_file(file, {{}, "mean_squared_error", "target"});
  CHECK_THAT(import.fixed, Catch::Contains("split"));
  Written written(import);
  CHECK(to_string(written.build(2).shape(written.build(2).outputs()[1])) == "f32[2, 3]");
  CHECK_THROWS_AS(written.build(4), InputError);
  CHECK_THAT(model_info(written.path).description, Catch::Contains("only for a batch of 2"));
}

TEST_CASE("losses: over classes, over numbers, over logits below a softmax or sigmoid") {
  auto pcg = [](const std::string& last, const std::string& loss) {
    OnnxFile file = OnnxFile().input("x", Dims{4, 3});
    if (!last.empty()) file.node(last, {"x"}, {"y"});
    return import_file(file.output(last.empty() ? "x" : "y"), {{}, loss, "t"}).model.pcg;
  };
  auto labels = [](const Pcg& g) { return to_string(g.shape({g[g.outputs()[0].node].inputs[1].node, 0})); };
  auto below = [](const Pcg& g) { return g[g[g.outputs()[0].node].inputs[0].node].op->name(); };
  CHECK(labels(pcg("Tanh", "cross_entropy")) == "i32[4]");
  CHECK(labels(pcg("Tanh", "mean_squared_error")) == "f32[4, 3]");
  CHECK(below(pcg("Tanh", "cross_entropy")) == "tanh");
  CHECK(below(pcg("Softmax", "cross_entropy")) == "input");
  CHECK(below(pcg("LogSoftmax", "cross_entropy")) == "input");
  CHECK(below(pcg("Softmax", "mean_squared_error")) == "softmax");
  CHECK(below(pcg("Sigmoid", "binary_cross_entropy")) == "input");
  CHECK(pcg("Tanh", "none").outputs().size() == 1);
  OnnxFile file = OnnxFile().input("x", Dims{4, 3}).node("Relu", {"x"}, {"y"}).output("y");
  CHECK(import_error(file, {{}, "cross_entropi", "t"}) ==
        "loss: found 'cross_entropi' (did you mean 'cross_entropy'?)");
  CHECK(import_error(file, {{}, "cross_entropy", "x"}) ==
        "loss cross_entropy: the name 'x' of its labels is taken, expected another (--labels)");
}

TEST_CASE("a convolutional network with batch norm in training keeps its states apart from its weights") {
  OnnxFile file = OnnxFile()
                      .input("x", std::vector<std::string>{"n", "1", "4", "4"})
                      .weight("conv.weight", {2, 1, 3, 3}, std::vector<float>(18, 0.1f))
                      .weight("bn.weight", {2}, {1, 1})
                      .weight("bn.bias", {2}, {0, 0})
                      .weight("bn.running_mean", {2}, {0.5f, 0.25f})
                      .weight("bn.running_var", {2}, {1, 2})
                      .node("Conv", {"x", "conv.weight"}, {"c"}, {{"pads", Dims{1, 1, 1, 1}}})
                      .node("BatchNormalization", {"c", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"},
                            {"b", "m", "v"}, {{"training_mode", std::int64_t{1}}})
                      .node("Relu", {"b"}, {"r"})
                      .node("Add", {"r", "c"}, {"s"})
                      .node("GlobalAveragePool", {"s"}, {"p"})
                      .node("Flatten", {"p"}, {"y"})
                      .output("y");
  OnnxImport import = import_file(file, {{{"n", 4}}, "cross_entropy", "labels"});
  CHECK(import.fixed.empty());
  Written written(import);
  std::string text = read_file(written.path);
  CHECK(text.find("states:\n  bn.running_mean: {shape: [2]}\n  bn.running_var: {shape: [2]}\n") != std::string::npos);
  CHECK(text.find("count: 1,") != std::string::npos);
  CHECK(canonical_hash(written.build(4)) == canonical_hash(import.model.pcg));
  CHECK(import.model.values.at("bn.running_var")->reals == std::vector<float>{1, 2});
}

TEST_CASE("names of nodes become labels that show the structure of the model") {
  CHECK(onnx_label("/encoder/layer.0/MatMul") == "encoder.layer.0.MatMul");
  CHECK(onnx_label("onnx::MatMul_12") == "onnx.MatMul_12");
  CHECK(onnx_label("//a b/") == "a.b");
  OnnxFile file = OnnxFile().input("x", Dims{1, 2}).weight("onnx::MatMul_3", {2, 2}, {1, 2, 3, 4});
  file.node("MatMul", {"x", "onnx::MatMul_3"}, {"y"}).output("y");
  CHECK(import_file(file).model.values.contains("y.MatMul.weight"));
}

TEST_CASE("equal scales and biases that an exporter writes once are trained apart") {
  OnnxFile file = OnnxFile()
                      .input("x", Dims{2, 2})
                      .weight("norm1.weight", {2}, {1, 1})
                      .weight("norm1.bias", {2}, {0, 0})
                      .node("Identity", {"norm1.weight"}, {"norm2.weight"})
                      .node("LayerNormalization", {"x", "norm1.weight", "norm1.bias"}, {"a"})
                      .node("LayerNormalization", {"a", "norm2.weight", "norm1.bias"}, {"y"})
                      .output("y");
  OnnxImport import = import_file(file);
  CHECK(count_nodes(import.model.pcg, "weight") == 4);
  for (const char* name : {"norm1.weight", "norm2.weight", "norm1.bias", "y.LayerNormalization.bias"})
    CHECK(import.model.values.contains(name));
}

TEST_CASE("one weight used twice is one leaf") {
  OnnxFile file = OnnxFile()
                      .input("x", Dims{2, 2})
                      .weight("w", {2, 2}, {1, 2, 3, 4})
                      .node("Identity", {"w"}, {"tied"})
                      .node("MatMul", {"x", "w"}, {"a"})
                      .node("MatMul", {"a", "tied"}, {"y"})
                      .output("y");
  CHECK(count_nodes(import_file(file).model.pcg, "weight") == 1);
  CHECK(result_of(file, {{"x", {1, 0, 0, 1}}}) == std::vector<double>{7, 10, 15, 22});
}

TEST_CASE("a model without operators, or with one called null, reads back") {
  for (const OnnxFile& file : {OnnxFile().input("x", Dims{2, 3}).node("Identity", {"x"}, {"y"}).output("y"),
                               OnnxFile().input("null", Dims{2, 3}).node("Relu", {"null"}, {"y"}).output("y")}) {
    OnnxImport import = import_file(file);
    Written written(import);
    CHECK(canonical_hash(written.build(2)) == canonical_hash(import.model.pcg));
  }
}

TEST_CASE("a constant with other numbers at another batch is for that batch alone") {
  OnnxFile file = OnnxFile()
                      .input("x", std::vector<std::string>{"n", "2"})
                      .node("Shape", {"x"}, {"shape"})
                      .node("Cast", {"shape"}, {"sizes"}, {{"to", std::int64_t{1}}})
                      .node("Mul", {"x", "sizes"}, {"y"})
                      .output("y");
  CHECK(import_file(file, {{{"n", 3}}, "none", "labels"}).fixed == "its constants depend on the batch");
}

TEST_CASE("values replace those of an earlier import, but no other file") {
  OnnxImport import = import_file(perceptron("n"), {{{"n", 5}}, "cross_entropy", "labels"});
  Written written(import);
  CHECK(write_import(import, written.path) == written.values);
  std::filesystem::remove(written.path);
  CHECK(write_import(import, written.path) == written.values);
  std::filesystem::remove(written.path);
  SafetensorsWriter(written.values, {}).finish();
  const std::string theirs = read_file(written.values);
  CHECK_THROWS_WITH(
      write_import(import, written.path),
      written.values + ": is there already, and no import wrote it; expected another name for the model (-o)");
  CHECK(read_file(written.values) == theirs);
  CHECK(!std::filesystem::exists(written.path));
  write_file_atomically(written.path,
                        "name: net\nweights_file: " + std::filesystem::path(written.values).filename().string() + "\n");
  CHECK(write_import(import, written.path) == written.values);  // of an older import
}
