// An ONNX model as Unity reads it: plain values, without protobuf. Element types are reduced to two: real (held in
// f32) and integer (which booleans are, too).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/ops/shape.h"

namespace unity {

struct OnnxTensor {
  Dims dims;
  bool integral = false;
  std::vector<float> reals;  // of a real tensor, row-major
  Integers integers;         // of an integer tensor
  std::int64_t elements() const { return element_count(dims); }
  // Element i as a real number. A float becomes the double with the same shortest decimal form: 1e-5f is 1e-5.
  double number(std::int64_t i) const;
};
using OnnxTensorRef = std::shared_ptr<const OnnxTensor>;

// Attributes that hold graphs, types or lists of texts are kept as std::monostate.
using OnnxAttribute =
    std::variant<std::monostate, std::int64_t, double, std::string, Integers, std::vector<double>, OnnxTensorRef>;

struct OnnxNode {
  std::string name, op, domain;
  std::vector<std::string> inputs, outputs;  // "" where an optional one is left out
  std::map<std::string, OnnxAttribute> attributes;
};

struct OnnxDim {
  std::int64_t size = 0;  // 0: known by name only
  std::string name;       // of a dynamic dimension; "INPUT.0" where the file gives it none
};

struct OnnxInput {
  std::string name;
  bool integral = false;
  std::vector<OnnxDim> dims;
};

struct OnnxGraph {
  std::string file;
  std::int64_t opset = 0;
  std::vector<OnnxInput> inputs;  // without those that have an initializer
  std::vector<std::string> outputs;
  std::vector<OnnxNode> nodes;  // in topological order
  std::map<std::string, OnnxTensorRef> initializers;
};

}  // namespace unity
