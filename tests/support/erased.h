// The logical function of a graph as a graph without parallelism: layouts are the identity on logical tensors, and
// stacked summands are their sum.
#pragma once

#include "core/graph/pcg.h"

namespace unity::test {

// With `trainable`, real inputs become weights, and a further output comes first: the loss, half the sum of the squares
// of all real outputs, if there are any.
inline Result<Pcg> erased(const Pcg& pcg, bool trainable = false) {
  Pcg result;
  std::vector<std::vector<ValueRef>> values(pcg.size());
  auto value = [&](ValueRef v) { return values[v.node.index()][static_cast<std::size_t>(v.output)]; };
  auto add = [&](std::string_view op, Attributes attributes, std::vector<ValueRef> inputs) -> Result<ValueRef> {
    return ValueRef{UNITY_TRY(result.try_add(get_operator(op), std::move(attributes), std::move(inputs))), 0};
  };
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& node = pcg.nodes()[i];
    std::vector<ValueRef> inputs;
    for (ValueRef v : node.inputs) inputs.push_back(value(v));
    if (node.is_parallelization()) {
      ValueRef sum = inputs[0];
      for (std::size_t k = 1; k < inputs.size(); ++k) sum = UNITY_TRY(add("add", {}, {sum, inputs[k]}));
      values[i] = {sum};
      continue;
    }
    bool as_weight = trainable && node.op->name() == "input" && node.outputs[0].dtype == DType::f32;
    const Operator& op = as_weight ? get_operator("weight") : *node.op;
    Attributes attributes = node.attributes;
    if (as_weight) attributes.resize(1);
    NodeId id = UNITY_TRY(result.try_add(op, std::move(attributes), std::move(inputs), node.origin, node.name));
    for (std::size_t o = 0; o < node.outputs.size(); ++o) values[i].push_back({id, static_cast<int>(o)});
  }
  std::vector<ValueRef> outputs;
  for (ValueRef v : pcg.outputs()) outputs.push_back(value(v));
  if (trainable) {
    std::optional<ValueRef> loss;
    for (ValueRef y : outputs) {
      if (result.shape(y).dtype != DType::f32) continue;
      Integers dims;
      for (std::size_t d = 0; d < result.shape(y).dims.size(); ++d) dims.push_back(static_cast<std::int64_t>(d));
      ValueRef term = UNITY_TRY(add("scale", {0.5}, {UNITY_TRY(add("mul", {}, {y, y}))}));
      if (!dims.empty()) term = UNITY_TRY(add("reduce_sum", {dims}, {term}));
      loss = loss ? UNITY_TRY(add("add", {}, {*loss, term})) : term;
    }
    if (loss) outputs.insert(outputs.begin(), *loss);
  }
  result.set_outputs(std::move(outputs));
  return result;
}

}  // namespace unity::test
