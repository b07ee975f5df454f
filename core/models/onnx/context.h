// What the translation of one ONNX node sees, and the state of the whole translation behind it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/builder.h"
#include "core/models/onnx/graph.h"

namespace unity {

// A node that Unity can't express. Collected over the whole model, then reported together.
class UnsupportedOnnx : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct OnnxValue {
  ValueRef ref;            // valid once it stands in the graph
  OnnxTensorRef tensor;    // of a constant or an initializer
  bool parameter = false;  // an initializer of real numbers: it becomes a weight (a single number of rank 0 does not)
  bool unknown = false;    // follows from an operator that Unity lacks
};

using NamedAttributes = std::vector<std::pair<std::string, AttributeValue>>;

// The graph in the making. Leaves take their initial values from `tensors`, by the leaf.
struct OnnxTranslation {
  explicit OnnxTranslation(const std::string& name) : builder(name) {}

  Builder builder;
  std::map<std::string, OnnxValue> values;
  std::map<ValueRef, OnnxTensorRef> tensors;
  std::map<std::pair<const OnnxTensor*, std::string>, ValueRef> leaves;  // by tensor and kind
  std::map<const OnnxTensor*, std::string> taken;                        // tensors that are leaves, and whose operand
  std::map<std::string, int> uses;                                       // of a value by nodes and as output
  std::int64_t opset = 0;
  // Where the batch of a file with a fixed batch is replaced: reshapes that name the old one are adapted.
  std::int64_t batch_before = 0, batch_after = 0;
};

// "/encoder/layer.0/MatMul" -> "encoder.layer.0.MatMul"
std::string onnx_label(const std::string& name);

class OnnxContext {
 public:
  OnnxContext(OnnxTranslation& translation, const OnnxNode& node);

  const OnnxNode& node() const { return node_; }
  std::int64_t opset() const { return all_.opset; }
  const std::string& label() const { return label_; }
  OnnxTranslation& translation() { return all_; }

  // Operands.
  std::size_t operands() const { return node_.inputs.size(); }
  bool given(std::size_t i) const { return i < operands() && !node_.inputs[i].empty(); }
  const OnnxValue& value(std::size_t i) const;
  Dims dims(std::size_t i) const;
  bool integral(std::size_t i) const;
  OnnxTensorRef constant(std::size_t i) const;                  // null for what is computed and for parameters
  std::optional<double> scalar(std::size_t i) const;            // of a constant of one element
  Dims integers(std::size_t i, const std::string& what) const;  // of a constant; else unsupported
  // As a value of the graph: parameters become weights, other constants states.
  ValueRef tensor(std::size_t i);
  // A constant or parameter as a leaf of that kind and shape (as many elements); computed values are reshaped.
  ValueRef leaf(std::size_t i, const std::string& kind, const Dims& dims);

  // Attributes.
  bool has(const std::string& attribute) const { return node_.attributes.contains(attribute); }
  std::int64_t integer(const std::string& attribute, std::int64_t fallback) const;
  double real(const std::string& attribute, double fallback) const;
  std::string text(const std::string& attribute, const std::string& fallback) const;
  Dims list(const std::string& attribute, Dims fallback) const;
  // An operand in newer opsets, an attribute in older ones.
  Dims list(std::size_t operand, const std::string& attribute, Dims fallback) const;

  // Building. Attributes that are not named take their defaults; an unknown name is unsupported.
  ValueRef emit(const std::string& op, const NamedAttributes& attributes, std::vector<ValueRef> inputs);
  std::vector<ValueRef> emit_all(const std::string& op, const NamedAttributes& attributes,
                                 std::vector<ValueRef> inputs);
  ValueRef state(OnnxTensorRef values);
  ValueRef scalar_state(double value) { return state(scalar_tensor(value)); }
  static OnnxTensorRef scalar_tensor(double value);
  Dims dims_of(ValueRef v) const { return all_.builder.dims(v); }
  bool integral_of(ValueRef v) const { return all_.builder.shape(v).shape().dtype == DType::i32; }
  ValueRef reshape(ValueRef x, const Dims& dims);  // x itself where nothing changes
  ValueRef shift(double amount, ValueRef x);
  ValueRef scale(double factor, ValueRef x);
  ValueRef transpose(ValueRef x, Dims permutation);
  ValueRef expand(ValueRef x, const Dims& dims);  // to a shape that x broadcasts to

  // Results.
  bool wanted(std::size_t i) const;
  void result(std::size_t i, ValueRef v);
  void result(std::size_t i, OnnxValue v);
  void results(const std::vector<ValueRef>& values);

  template <class... Args>
  [[noreturn]] void unsupported(fmt::format_string<Args...> format, Args&&... args) const {
    throw UnsupportedOnnx(fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  [[noreturn]] void wrong(fmt::format_string<Args...> format, Args&&... args) const {
    throw InputError(fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  template <class T>
  T attribute(const std::string& name, T fallback) const;
  ValueRef make_leaf(const OnnxTensorRef& tensor, const std::string& kind, const Dims& dims, const std::string& name);
  std::string leaf_name(std::size_t i) const;

  OnnxTranslation& all_;
  const OnnxNode& node_;
  std::string label_;
  bool named_ = false;  // the node's label is taken
};

}  // namespace unity
