#include "core/models/onnx/read.h"

#include <charconv>
#include <set>

#include "core/base/text.h"
#include "core/models/onnx/tensor_data.h"

namespace unity {
namespace {

onnx::ModelProto parse_model(const std::string& path) {
  std::string bytes = read_file(path);
  if (bytes.size() > static_cast<std::size_t>(INT32_MAX))
    throw_input_error("{}: found {} bytes, expected fewer than 2^31 (larger tensors go to external data)", path,
                      bytes.size());
  onnx::ModelProto model;
  // An ONNX model starts with its ir_version, which is field 1.
  if (bytes.empty() || bytes[0] != '\x08') throw_input_error("{}: is not an ONNX model", path);
  if (!model.ParseFromString(bytes)) throw_input_error("{}: is truncated or not an ONNX model", path);
  if (!model.has_ir_version() || model.ir_version() < 3)
    throw_input_error("{}: found ONNX version {}, expected at least 3; is it an ONNX model?", path, model.ir_version());
  if (!model.has_graph() || model.graph().output_size() == 0)
    throw_input_error("{}: found no graph with outputs; is the file truncated?", path);
  return model;
}

std::int64_t opset_of(const onnx::ModelProto& model, const std::string& path) {
  for (const auto& opset : model.opset_import())
    if (opset.domain().empty() || opset.domain() == "ai.onnx") {
      if (opset.version() < kOldestOpset || opset.version() > kNewestOpset)
        throw_input_error("{}: found opset {}, expected {} to {}", path, opset.version(), kOldestOpset, kNewestOpset);
      return opset.version();
    }
  throw_input_error("{}: found no opset of ONNX's own operators; is the file truncated?", path);
}

OnnxAttribute read_attribute(const onnx::AttributeProto& a, const std::string& path) {
  switch (a.type()) {
    case onnx::AttributeProto::INT:
      return a.i();
    case onnx::AttributeProto::FLOAT: {
      OnnxTensor one{{}, false, {a.f()}, {}};
      return one.number(0);
    }
    case onnx::AttributeProto::STRING:
      return a.s();
    case onnx::AttributeProto::INTS:
      return Integers(a.ints().begin(), a.ints().end());
    case onnx::AttributeProto::FLOATS:
      return std::vector<double>(a.floats().begin(), a.floats().end());
    case onnx::AttributeProto::TENSOR:
      return read_tensor(a.t(), path);
    default:
      return std::monostate();
  }
}

OnnxNode read_node(const onnx::NodeProto& proto, const std::string& path) {
  OnnxNode node{proto.name(),
                proto.op_type(),
                proto.domain() == "ai.onnx" ? "" : proto.domain(),
                {proto.input().begin(), proto.input().end()},
                {proto.output().begin(), proto.output().end()},
                {}};
  if (node.outputs.empty()) throw_input_error("{}: node '{}' ({}) has no outputs", path, proto.name(), proto.op_type());
  for (const auto& attribute : proto.attribute()) node.attributes[attribute.name()] = read_attribute(attribute, path);
  return node;
}

OnnxInput read_input(const onnx::ValueInfoProto& proto, const std::string& path) {
  OnnxInput input;
  input.name = proto.name();
  if (!proto.type().has_tensor_type())
    throw_input_error("{}: input '{}': found a sequence, map or optional, expected a tensor", path, proto.name());
  const auto& type = proto.type().tensor_type();
  if (!known_element_type(type.elem_type(), input.integral))
    throw_input_error("{}: input '{}': found element type {}, expected a real or integer type", path, proto.name(),
                      element_type_name(type.elem_type()));
  if (!type.has_shape())
    throw_input_error("{}: input '{}': found no shape, expected the number of its dimensions at least", path,
                      proto.name());
  for (const auto& d : type.shape().dim()) {
    OnnxDim dim;
    if (d.has_dim_value() && d.dim_value() > 0)
      dim.size = d.dim_value();
    else
      dim.name = d.has_dim_param() && !d.dim_param().empty() ? d.dim_param()
                                                             : fmt::format("{}.{}", proto.name(), input.dims.size());
    input.dims.push_back(std::move(dim));
  }
  return input;
}

}  // namespace

double OnnxTensor::number(std::int64_t i) const {
  auto n = static_cast<std::size_t>(i);
  if (integral) return static_cast<double>(integers[n]);
  std::string text = fmt::format("{}", reals[n]);
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? value : static_cast<double>(reals[n]);
}

OnnxGraph read_onnx(const std::string& path) {
  onnx::ModelProto model = parse_model(path);
  OnnxGraph graph;
  graph.file = path;
  graph.opset = opset_of(model, path);
  const onnx::GraphProto& proto = model.graph();
  if (proto.sparse_initializer_size() > 0)
    throw_input_error("{}: found {} sparse initializers, expected dense ones", path, proto.sparse_initializer_size());
  for (const auto& tensor : proto.initializer())
    if (!graph.initializers.emplace(tensor.name(), read_tensor(tensor, path)).second)
      throw_input_error("{}: initializer '{}' is defined twice", path, tensor.name());
  for (const auto& input : proto.input())
    if (!graph.initializers.contains(input.name())) graph.inputs.push_back(read_input(input, path));
  for (const auto& node : proto.node()) graph.nodes.push_back(read_node(node, path));
  for (const auto& output : proto.output()) graph.outputs.push_back(output.name());
  return graph;
}

}  // namespace unity
