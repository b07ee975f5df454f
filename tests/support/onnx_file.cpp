#include "tests/support/onnx_file.h"

#include <cmath>
#include <filesystem>

#include <catch2/catch.hpp>
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include "core/base/text.h"
#include "core/graph/evaluate.h"
#include "core/graph/text.h"
#include "core/ops/leaves.h"

namespace unity::test {

struct OnnxFile::Model {
  onnx::ModelProto proto;
};

OnnxFile::OnnxFile(std::int64_t opset) : model_(std::make_shared<Model>()) {
  model_->proto.set_ir_version(8);
  model_->proto.add_opset_import()->set_version(opset);
  model_->proto.mutable_graph()->set_name("test");
}

OnnxFile& OnnxFile::input(const std::string& name, const std::vector<std::string>& dims, bool integral) {
  auto* value = model_->proto.mutable_graph()->add_input();
  value->set_name(name);
  auto* type = value->mutable_type()->mutable_tensor_type();
  type->set_elem_type(integral ? onnx::TensorProto::INT64 : onnx::TensorProto::FLOAT);
  type->mutable_shape();
  for (const std::string& d : dims)
    if (std::isdigit(static_cast<unsigned char>(d[0])))
      type->mutable_shape()->add_dim()->set_dim_value(std::stoll(d));
    else
      type->mutable_shape()->add_dim()->set_dim_param(d == "?" ? "" : d);
  return *this;
}

OnnxFile& OnnxFile::input(const std::string& name, const Dims& dims, bool integral) {
  std::vector<std::string> texts;
  for (std::int64_t d : dims) texts.push_back(std::to_string(d));
  return input(name, texts, integral);
}

OnnxFile& OnnxFile::input_of_type(const std::string& name, const Dims& dims, int type) {
  input(name, dims);
  auto* inputs = model_->proto.mutable_graph()->mutable_input();
  inputs->Mutable(inputs->size() - 1)->mutable_type()->mutable_tensor_type()->set_elem_type(type);
  return *this;
}

namespace {

void set_tensor(onnx::TensorProto& proto, const OnnxTensor& tensor) {
  for (std::int64_t d : tensor.dims) proto.add_dims(d);
  proto.set_data_type(tensor.integral ? onnx::TensorProto::INT64 : onnx::TensorProto::FLOAT);
  if (tensor.integral)
    proto.set_raw_data(tensor.integers.data(), tensor.integers.size() * sizeof(std::int64_t));
  else
    for (float v : tensor.reals) proto.add_float_data(v);
}

struct SetAttribute {
  onnx::AttributeProto& a;
  void operator()(std::monostate) const {}
  void operator()(std::int64_t v) const { a.set_type(onnx::AttributeProto::INT), a.set_i(v); }
  void operator()(double v) const { a.set_type(onnx::AttributeProto::FLOAT), a.set_f(static_cast<float>(v)); }
  void operator()(const std::string& v) const { a.set_type(onnx::AttributeProto::STRING), a.set_s(v); }
  void operator()(const Integers& v) const {
    a.set_type(onnx::AttributeProto::INTS);
    for (std::int64_t x : v) a.add_ints(x);
  }
  void operator()(const std::vector<double>& v) const {
    a.set_type(onnx::AttributeProto::FLOATS);
    for (double x : v) a.add_floats(static_cast<float>(x));
  }
  void operator()(const OnnxTensorRef& v) const {
    a.set_type(onnx::AttributeProto::TENSOR), set_tensor(*a.mutable_t(), *v);
  }
};

}  // namespace

OnnxFile& OnnxFile::weight(const std::string& name, const Dims& dims, const std::vector<float>& values) {
  auto* proto = model_->proto.mutable_graph()->add_initializer();
  proto->set_name(name);
  set_tensor(*proto, {dims, false, values, {}});
  return *this;
}

OnnxFile& OnnxFile::integers(const std::string& name, const Dims& dims, const Integers& values) {
  auto* proto = model_->proto.mutable_graph()->add_initializer();
  proto->set_name(name);
  set_tensor(*proto, {dims, true, {}, values});
  return *this;
}

OnnxFile& OnnxFile::external(const std::string& name, const Dims& dims, const std::string& location,
                             std::int64_t offset, std::int64_t length) {
  auto* proto = model_->proto.mutable_graph()->add_initializer();
  proto->set_name(name);
  proto->set_data_type(onnx::TensorProto::FLOAT);
  for (std::int64_t d : dims) proto->add_dims(d);
  proto->set_data_location(onnx::TensorProto::EXTERNAL);
  auto entry = [&](const std::string& key, const std::string& value) {
    auto* added = proto->add_external_data();
    added->set_key(key), added->set_value(value);
  };
  entry("location", location), entry("offset", std::to_string(offset)), entry("length", std::to_string(length));
  return *this;
}

OnnxFile& OnnxFile::node(const std::string& op, const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs,
                         const std::map<std::string, OnnxAttribute>& attributes, const std::string& domain) {
  auto* proto = model_->proto.mutable_graph()->add_node();
  proto->set_op_type(op), proto->set_domain(domain);
  proto->set_name("/" + outputs[0] + "/" + op);
  for (const std::string& i : inputs) proto->add_input(i);
  for (const std::string& o : outputs) proto->add_output(o);
  for (const auto& [name, value] : attributes) {
    auto* attribute = proto->add_attribute();
    attribute->set_name(name);
    std::visit(SetAttribute{*attribute}, value);
  }
  return *this;
}

OnnxFile& OnnxFile::output(const std::string& name) {
  model_->proto.mutable_graph()->add_output()->set_name(name);
  return *this;
}

std::string OnnxFile::bytes() const { return model_->proto.SerializeAsString(); }

std::string OnnxFile::save(const std::string& path) const {
  write_file_atomically(path, bytes());
  return path;
}

std::string onnx_path(const std::string& name) {
  // Of this process: cases run side by side.
  return (std::filesystem::temp_directory_path() / fmt::format("unity-onnx-{}-{}", getpid(), name)).string();
}

OnnxImport import_file(const OnnxFile& file, OnnxImportOptions options) {
  std::string path = file.save(onnx_path("model.onnx"));
  OnnxImport import = import_onnx(path, options);
  std::filesystem::remove(path);
  return import;
}

std::vector<std::vector<double>> evaluate_import(const OnnxTranslated& model, const Inputs& inputs) {
  LeafValues leaves;
  for (const Node& node : model.pcg.nodes()) {
    const std::string& op = node.op->name();
    if (op != "input" && op != "weight" && op != "state") continue;
    Shape shape = node.outputs[0].shape();
    bool indices = shape.dtype == DType::i32;
    shape.dtype = indices ? DType::i32 : DType::f64;
    LogicalTensor value(shape);
    auto imported = model.values.find(node.name);
    auto given = inputs.find(node.name);
    INFO("leaf " << node.name);
    if (op == "input")
      REQUIRE((given != inputs.end() && static_cast<std::int64_t>(given->second.size()) == value.elements()));
    for (std::int64_t i = 0; i < value.elements(); ++i) {
      double x = op == "input"                    ? given->second[static_cast<std::size_t>(i)]
                 : imported != model.values.end() ? imported->second->number(i)
                                                  : initial_weight(node.attributes, {}, i);
      if (indices)
        value.as<std::int32_t>()[i] = static_cast<std::int32_t>(x);
      else
        value.as<double>()[i] = x;
    }
    leaves.emplace(node.name, std::move(value));
  }
  std::vector<std::vector<double>> results;
  for (const LogicalTensor& t : evaluate_outputs(model.pcg, leaves)) {
    results.emplace_back();
    for (std::int64_t i = 0; i < t.elements(); ++i) results.back().push_back(t.number(i));
  }
  return results;
}

std::vector<double> result_of(const OnnxFile& file, const Inputs& inputs) {
  OnnxImport import = import_file(file);
  INFO(print(import.model.pcg));
  return evaluate_import(import.model, inputs).at(0);
}

std::string import_error(const OnnxFile& file, OnnxImportOptions options) {
  std::string path = onnx_path("model.onnx");
  try {
    import_file(file, options);
  } catch (const InputError& error) {
    std::filesystem::remove(path);
    std::string message = error.what();
    REQUIRE(message.starts_with(path + ": "));
    return message.substr(path.size() + 2);
  }
  return "no error";
}

void check_close(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("element " << i);
    if (found[i] != expected[i])
      CHECK(std::abs(found[i] - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i])));
  }
}

}  // namespace unity::test
