#include "core/ops/accumulating.h"

#include <algorithm>

#include "core/ops/define.h"

namespace unity {
namespace {

constexpr std::string_view kSuffix = "_accumulate";

}  // namespace

const Operator* Accumulating::accumulates() const {
  return &get_operator(std::string_view(name()).substr(0, name().size() - kSuffix.size()));
}

Arity Accumulating::arity() const {
  Arity own = accumulates()->arity();
  return {own.min + 1, own.max + 1};
}

Result<AxisTable> Accumulating::axes(const Attributes& attributes, std::span<const Shape> in) const {
  if (accumulates()->accumulating(attributes) != name())
    return fail("{}: {} with these attributes is not added up", name(), accumulates()->name());
  AxisTable t = UNITY_TRY(accumulates()->axes(attributes, in.first(in.size() - 1)));
  if (Shape result = operand_shape(t, t.outputs[0]); in.back() != result)
    return fail("{}: found a sum {}, expected {}", name(), to_string(in.back()), to_string(result));
  for (Axis& axis : t.axes)
    if (axis.role == AxisRole::reduction) axis.role = AxisRole::whole;
  for (OperandAxes& operand : t.inputs) operand.linear = false;
  t.linearity = Linearity::none;
  t.inputs.push_back(t.outputs[0]);
  return t;
}

void Accumulating::reference(const OpCall& call) const {
  const Operand &sum = call.inputs.back(), &result = call.outputs[0];
  dispatch_reference(call, [&]<class T>() {
    std::vector<T> added(static_cast<std::size_t>(result.elements()));
    OpCall one = call;
    one.inputs = call.inputs.first(call.inputs.size() - 1);
    std::vector<Operand> outputs = {result};
    outputs[0].data = added.data();
    one.outputs = outputs;
    accumulates()->reference(one);
    for (std::size_t i = 0; i < added.size(); ++i) result.as<T>()[i] = sum.as<T>()[i] + added[i];
  });
}

std::vector<Example> Accumulating::examples() const {
  std::vector<Example> examples;
  for (Example& e : accumulates()->examples()) {
    Attributes attributes =
        complete_attributes(accumulates()->name(), accumulates()->attributes(), e.attributes).value();
    if (accumulates()->accumulating(attributes).empty()) continue;
    AxisTable t = accumulates()->axes(attributes, e.inputs).value();
    e.inputs.push_back(operand_shape(t, t.outputs[0]));
    examples.push_back(std::move(e));
  }
  return examples;
}

UNITY_DEFINE_OPERATOR(conv2d_input_gradient_accumulate, Accumulating)
UNITY_DEFINE_OPERATOR(conv2d_weight_gradient_accumulate, Accumulating)
UNITY_DEFINE_OPERATOR(matmul_accumulate, Accumulating)
UNITY_DEFINE_OPERATOR(matmul_weight_gradient_accumulate, Accumulating)
UNITY_DEFINE_OPERATOR(moments_gradient_accumulate, Accumulating)

}  // namespace unity
