#include "core/graph/evaluate.h"

#include <algorithm>

#include "core/ops/leaves.h"
#include "core/ops/reference.h"

namespace unity {
namespace {

Shape evaluated_shape(const ParallelShape& shape, DType real) {
  Shape logical = shape.shape();
  if (logical.dtype != DType::i32) logical.dtype = real;
  return logical;
}

bool has_value_of_its_own(const Node& node) { return !node.is_leaf() || node.op->random(); }

// The smallest bound among the users, found through users that hand the values on (partition, of indices also reshape).
std::int64_t bound_among_users(const Pcg& pcg, const std::vector<std::vector<Pcg::Use>>& uses, NodeId id) {
  std::int64_t bound = kNoIndexBound;
  for (const Pcg::Use& use : uses[id.index()]) {
    const Node& user = pcg[use.user];
    if (user.is_parallelization() || user.outputs[0].dtype == DType::i32)
      bound = std::min(bound, bound_among_users(pcg, uses, use.user));
    std::vector<Shape> shapes;
    for (ValueRef v : user.inputs) shapes.push_back(pcg.shape(v).shape());
    if (auto own = user.op->index_bound(user.attributes, shapes, static_cast<std::size_t>(use.operand)))
      bound = std::min(bound, *own);
  }
  return bound;
}

}  // namespace

LogicalTensor::LogicalTensor(Shape shape)
    : shape_(std::move(shape)), bytes_(static_cast<std::size_t>(shape_.bytes()), std::byte{0}) {}

Operand LogicalTensor::operand() const {
  return {const_cast<std::byte*>(bytes_.data()), shape_.dtype, shape_.dims, Dims(shape_.dims.size(), 0), shape_.dims};
}

double LogicalTensor::number(std::int64_t i) const {
  switch (shape_.dtype) {
    case DType::f32:
      return as<float>()[i];
    case DType::f64:
      return as<double>()[i];
    case DType::i32:
      return as<std::int32_t>()[i];
    case DType::i64:
      return static_cast<double>(as<std::int64_t>()[i]);
    case DType::mod:
      return static_cast<double>(as<Mod>()[i].value);
    case DType::bf16:
      break;
  }
  UNITY_CHECK(false, "the evaluator does not hold bf16");
}

std::vector<std::vector<LogicalTensor>> evaluate(const Pcg& pcg, const LeafValues& leaves,
                                                 const EvaluateOptions& options) {
  std::vector<std::vector<LogicalTensor>> values(pcg.size());
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& node = pcg.nodes()[i];
    if (!has_value_of_its_own(node)) {
      Shape expected = evaluated_shape(node.outputs[0], options.real);
      auto found = leaves.find(node.name);
      if (found == leaves.end())
        throw_input_error("evaluate: leaf '{}' has no value, expected {}", node.name, to_string(expected));
      if (found->second.shape() != expected)
        throw_input_error("evaluate: leaf '{}' is {}, expected {}", node.name, to_string(found->second.shape()),
                          to_string(expected));
      values[i].push_back(found->second);
      continue;
    }
    std::vector<Operand> inputs, outputs;
    for (ValueRef v : node.inputs)
      inputs.push_back(values[v.node.index()][static_cast<std::size_t>(v.output)].operand());
    for (const ParallelShape& shape : node.outputs) values[i].emplace_back(evaluated_shape(shape, options.real));
    for (const LogicalTensor& value : values[i]) outputs.push_back(value.operand());
    RandomKey key = RandomKey(options.seed).with(static_cast<std::uint64_t>(node.origin.value)).with(options.step);
    node.op->reference({node.attributes, inputs, outputs, key});
  }
  return values;
}

std::vector<LogicalTensor> evaluate_outputs(const Pcg& pcg, const LeafValues& leaves, const EvaluateOptions& options) {
  auto values = evaluate(pcg, leaves, options);
  std::vector<LogicalTensor> outputs;
  for (ValueRef v : pcg.outputs()) outputs.push_back(values[v.node.index()][static_cast<std::size_t>(v.output)]);
  return outputs;
}

LeafValues random_leaves(const Pcg& pcg, const EvaluateOptions& options) {
  LeafValues leaves;
  auto uses = pcg.uses();
  for (std::size_t n = 0; n < pcg.size(); ++n) {
    const Node& node = pcg.nodes()[n];
    if (has_value_of_its_own(node)) continue;
    RandomKey key = RandomKey(options.seed).with(static_cast<std::uint64_t>(node.origin.value));
    LogicalTensor value(evaluated_shape(node.outputs[0], options.real));
    std::int64_t bound =
        value.shape().dtype == DType::i32 ? bound_among_users(pcg, uses, NodeId(static_cast<std::int64_t>(n))) : 0;
    for (std::int64_t i = 0; i < value.elements(); ++i) {
      auto index = static_cast<std::uint64_t>(i);
      switch (value.shape().dtype) {
        case DType::i32:
          value.as<std::int32_t>()[i] =
              static_cast<std::int32_t>(random_below(key, index, static_cast<std::uint64_t>(bound)));
          break;
        case DType::i64:
          value.as<std::int64_t>()[i] = static_cast<std::int64_t>(random_below(key, index, 19)) - 9;
          break;
        case DType::mod:
          value.as<Mod>()[i].value = random_below(key, index, Mod::kPrime);
          break;
        default:
          value.as<double>()[i] =
              node.op->stored() ? initial_weight(node.attributes, key, i) : random_normal(key, index);
      }
    }
    leaves.emplace(node.name, std::move(value));
  }
  return leaves;
}

std::int64_t index_bound(const Pcg& pcg, NodeId leaf) { return bound_among_users(pcg, pcg.uses(), leaf); }

}  // namespace unity
