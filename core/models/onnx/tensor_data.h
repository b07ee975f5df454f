// Tensors of ONNX files. Only this header and its users see protobuf.
#pragma once

#include <filesystem>
#include <string>

#include <onnx/onnx_pb.h>

#include "core/models/onnx/graph.h"

namespace unity {

// Whether Unity has the element type (an onnx::TensorProto::DataType); `integral` says which of the two kinds it is.
bool known_element_type(int type, bool& integral);
std::string element_type_name(int type);

// `model` is the path of the .onnx file, for messages and for external data. InputError as read_onnx says.
OnnxTensorRef read_tensor(const onnx::TensorProto& tensor, const std::filesystem::path& model);

}  // namespace unity
