// Models: YAML and ONNX.
#include <google/protobuf/text_format.h>
#include <onnx/onnx_pb.h>

#include "core/graph/text.h"
#include "core/models/models.h"
#include "core/models/onnx/import.h"
#include "core/models/onnx/read.h"
#include "core/models/yaml_model.h"
#include "core/models/yaml_write.h"
#include "tests/fuzz/target.h"

namespace unity::fuzz {
namespace {

// A graph that a model file says is printed and parsed to the same graph, and written as a model file to an equal one.
void check_graph(const Pcg& pcg, std::int64_t batch) {
  std::string text = print(pcg);
  require_equal(print(parse_pcg(text)), text, "a model's graph that is printed, parsed and printed");
  ModelFileText file;
  file.description = "written";
  file.batch = batch;
  std::string path = scratch_file("written.yaml", write_model(pcg, file));
  require(canonical_hash(build_model({path, {}})) == canonical_hash(pcg), "a model that is written is another one");
}

void run_model(std::string_view input) {
  std::string path = scratch_file("model.yaml", input);
  accepted([&] {
    ModelInfo info = model_info(path);
    Pcg pcg = build_model({path, {}});
    accepted([&] { (void)build_model({path, {{"batch", 3}}}); });
    check_graph(pcg, info.batch_per_gpu);
  });
}

std::vector<std::string> model_seeds() {
  std::vector<std::string> seeds = {tree_file("experiments/models/two-tower.yaml")};
  for (const char* name : {"mlp-tiny"}) seeds.push_back(write_model(build_model({name, {}}), {"built in", 4}));
  return seeds;
}

void run_onnx(std::string_view input) {
  std::string path = scratch_file("model.onnx", input);
  accepted([&] {
    OnnxImportOptions options;
    options.loss = "none";
    OnnxGraph graph = read_onnx(path);
    for (const OnnxInput& in : graph.inputs)
      for (const OnnxDim& dim : in.dims)
        if (dim.size == 0) options.dims[dim.name] = 2;
    OnnxImport import = import_onnx(path, options);
    std::string text = print(import.model.pcg);
    require_equal(print(parse_pcg(text)), text, "an imported graph that is printed, parsed and printed");
    std::string written = scratch_folder() + "/imported.yaml";
    write_import(import, written);
    require(canonical_hash(build_model({written, {}})) == canonical_hash(import.model.pcg),
            "an import that is written is another one");
  });
}

std::string onnx_bytes(const std::string& graph) {
  onnx::ModelProto model;
  if (!google::protobuf::TextFormat::ParseFromString(
          "ir_version: 8 opset_import { version: 17 } graph { " + graph + " }", &model))
    throw std::logic_error("a seed is no ONNX model: " + graph);
  return model.SerializeAsString();
}

std::string value(const std::string& kind, const std::string& name, const std::vector<int>& dims, int type = 1) {
  std::string text =
      kind + " { name: '" + name + "' type { tensor_type { elem_type: " + std::to_string(type) + " shape { ";
  for (int d : dims)
    text += "dim { " + (d > 0 ? "dim_value: " + std::to_string(d) : std::string("dim_param: 'n'")) + " } ";
  return text + "} } } } ";
}

std::string floats(const std::string& name, const std::vector<int>& dims, const std::vector<double>& values) {
  std::string text = "initializer { name: '" + name + "' data_type: 1 ";
  for (int d : dims) text += "dims: " + std::to_string(d) + " ";
  for (double v : values) text += "float_data: " + std::to_string(v) + " ";
  return text + "} ";
}

std::string integers(const std::string& name, const std::vector<int>& values) {
  std::string text = "initializer { name: '" + name + "' data_type: 7 dims: " + std::to_string(values.size()) + " ";
  for (int v : values) text += "int64_data: " + std::to_string(v) + " ";
  return text + "} ";
}

std::string node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
                 const std::string& attributes = "") {
  std::string text = "node { op_type: '" + op + "' output: '" + output + "' ";
  for (const std::string& i : inputs) text += "input: '" + i + "' ";
  return text + attributes + "} ";
}

std::string ints(const std::string& name, const std::vector<int>& values) {
  std::string text = "attribute { name: '" + name + "' type: INTS ";
  for (int v : values) text += "ints: " + std::to_string(v) + " ";
  return text + "} ";
}

std::string one(const std::string& name, int v) {
  return "attribute { name: '" + name + "' type: INT i: " + std::to_string(v) + " } ";
}

// One small file for each operator that is translated or folded, so that mutations reach all of them.
std::vector<std::string> onnx_seeds() {
  const std::string x = value("input", "x", {0, 3}), y = value("output", "y", {});
  std::vector<std::string> graphs = {
      x + floats("w", {4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}) + floats("b", {4}, {1, 0, -1, 0}) +
          node("Gemm", {"x", "w", "b"}, "h", one("transB", 1)) + node("Relu", {"h"}, "y") + y,
      x + node("Shape", {"x"}, "s") + integers("i", {0}) + node("Gather", {"s", "i"}, "g", one("axis", 0)) +
          integers("m", {-1}) + node("Concat", {"g", "m"}, "c", one("axis", 0)) + node("Reshape", {"x", "c"}, "y") + y,
      value("input", "x", {2, 3, 5, 5}) + floats("w", {2, 3, 1, 1}, {1, 2, 3, 4, 5, 6}) +
          node("Conv", {"x", "w"}, "h",
               ints("kernel_shape", {1, 1}) + ints("pads", {0, 0, 0, 0}) + ints("strides", {1, 1})) +
          node("MaxPool", {"h"}, "p", ints("kernel_shape", {2, 2}) + ints("strides", {2, 2}) + one("ceil_mode", 1)) +
          node("GlobalAveragePool", {"p"}, "g") + node("Flatten", {"g"}, "y", one("axis", 1)) + y,
      x + integers("st", {0}) + integers("en", {2}) + integers("ax", {1}) +
          node("Slice", {"x", "st", "en", "ax"}, "a") + node("Unsqueeze", {"a", "ax"}, "u") +
          node("Squeeze", {"u", "ax"}, "v") + node("Split", {"v"}, "y", one("axis", 1)) + y,
      x + node("Transpose", {"x"}, "t", ints("perm", {1, 0})) + node("MatMul", {"x", "t"}, "m") +
          node("Softmax", {"m"}, "y", one("axis", -1)) + y,
      value("input", "x", {2, 3}, 7) + floats("w", {5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) +
          node("Gather", {"w", "x"}, "e") + node("ReduceMean", {"e"}, "r", ints("axes", {-1}) + one("keepdims", 1)) +
          node("Sub", {"e", "r"}, "d") + node("Erf", {"d"}, "y") + y,
      integers("a", {0}) + integers("l", {6}) + integers("s", {2}) + node("Squeeze", {"a"}, "a0") +
          node("Squeeze", {"l"}, "l0") + node("Squeeze", {"s"}, "s0") + node("Range", {"a0", "l0", "s0"}, "r") +
          node("Cast", {"r"}, "f", one("to", 1)) + value("input", "x", {3}) + node("Add", {"x", "f"}, "y") + y,
      integers("n", {3, 3}) + node("ConstantOfShape", {"n"}, "o") + node("Trilu", {"o"}, "t", one("upper", 0)) +
          value("input", "x", {3, 3}) + node("Where", {"t", "x", "x"}, "y") + y,
      x + floats("g", {3}, {1, 1, 1}) + floats("b", {3}, {0, 0, 0}) +
          node("LayerNormalization", {"x", "g", "b"}, "h", one("axis", -1)) + integers("e", {2, 3}) +
          node("Expand", {"h", "e"}, "z") + node("Sigmoid", {"z"}, "s") + node("Mul", {"z", "s"}, "y") + y,
      "initializer { name: 'w' data_type: 1 dims: 3 data_location: EXTERNAL external_data { key: 'location' value: "
      "'w.bin' } external_data { key: 'offset' value: '0' } external_data { key: 'length' value: '12' } } " +
          x + node("Mul", {"x", "w"}, "y") + y,
      "initializer { name: 'w' data_type: 10 dims: 2 raw_data: '\\000\\074\\000\\100' } " +
          value("input", "x", {1, 2}) + node("Div", {"x", "w"}, "h") + node("Clip", {"h"}, "y") + y};
  // Former findings.
  graphs.push_back(x + "node { op_type: 'Split' input: 'x' } " + y);  // divided by the number of results
  std::vector<std::string> seeds;
  for (const std::string& graph : graphs) seeds.push_back(onnx_bytes(graph));
  return seeds;
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> list = {
      {"model", "its graph is printed and parsed to the same, and written as a file to an equal one", run_model,
       model_seeds, 3000, "model"},
      {"onnx", "its graph is printed and parsed to the same; imported, it is written and read to an equal one",
       run_onnx, onnx_seeds, 2048, "onnx"},
  };
  return list;
}

}  // namespace unity::fuzz
